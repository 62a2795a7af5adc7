"""Reads updates and messages with python-telegram-bot, and calls a Bot API server with it.

Standard input, JSON: {"updates": [...], "messages": [...], "api": URL, "token": text, "calls": [{"chat_id", "text"}]}.
Standard output, JSON: {"updates": [[kinds found, unknown fields]], "messages": [unknown fields or difference],
"calls": [[class of the result or of the error, details]], "version": text}.
"""

import asyncio
import json
import sys

import telegram
from telegram import Bot, Message, TelegramObject, Update
from telegram.request import HTTPXRequest


def unknown_fields(value, path=""):
    """Names of fields that the library has no place for."""
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in unknown_fields(item, path)]
    if not isinstance(value, TelegramObject):
        return []
    found = [f"{path}.{name}" for name in value.api_kwargs]
    for name in type(value).__slots__ if hasattr(type(value), "__slots__") else []:
        if not name.startswith("_") and name != "api_kwargs":
            found += unknown_fields(getattr(value, name, None), f"{path}.{name}")
    return found


def read_update(data):
    update = Update.de_json(data, None)
    kinds = [name for name in Update.ALL_TYPES if getattr(update, name) is not None]
    return [kinds, unknown_fields(update), update.update_id == data["update_id"]]


def read_message(data):
    message = Message.de_json(data, None)
    problems = unknown_fields(message)
    # The library adds the switches that a plain message leaves out.
    if {name: value for name, value in message.to_dict().items() if value is not False} != data:
        problems.append("it reads back differently")
    for entity in message.entities:
        if len(message.parse_entity(entity).encode("utf-16-le")) // 2 != entity.length:
            problems.append("an entity stands outside the text")
    return problems


async def call(bot, parameters):
    try:
        message = await bot.send_message(**parameters)
        return ["Message", {"message_id": message.message_id, "text": message.text, "chat_id": message.chat_id}]
    except telegram.error.TelegramError as error:
        details = {"message": error.message}
        for name in ("retry_after", "new_chat_id"):
            if hasattr(error, name):
                value = getattr(error, name)
                details[name] = value.total_seconds() if hasattr(value, "total_seconds") else value
        return [type(error).__name__, details]


async def call_all(order):
    if not order.get("calls"):
        return []
    request = HTTPXRequest(read_timeout=1.0)
    async with Bot(order["token"], base_url=f"{order['api']}/bot", request=request) as bot:
        return [await call(bot, parameters) for parameters in order["calls"]]


def main():
    order = json.load(sys.stdin)
    json.dump(
        {
            "version": telegram.__version__,
            "updates": [read_update(data) for data in order.get("updates", [])],
            "messages": [read_message(data) for data in order.get("messages", [])],
            "calls": asyncio.run(call_all(order)),
        },
        sys.stdout,
    )


main()
