// The plain consumer that Hermod's is measured against: for each order to send it runs the very statements that Hermod
// was recorded to run for that gateway, in the same batches with the same values, and makes the very same requests in
// between. No decryption, no decision, no record of its own.
// The recording (see sends.mjs) is given as the module recipe.json.
import recipe from "./recipe.json";

const values = (binds) => binds.map((bind) => (bind?.bytes ? new Uint8Array(bind.bytes) : bind));

export default {
  async queue(batch, env) {
    const run = (statements) =>
      env.DB.batch(statements.map(({ sql, binds }) => {
        const statement = env.DB.prepare(recipe.sql[sql]);
        return binds.length > 0 ? statement.bind(...values(binds)) : statement;
      }));
    for (const message of batch.messages) {
      const { claim, requests, settle } = recipe.waves[JSON.parse(message.body).gateway_id];
      await run(claim);
      const answers = await Promise.all(requests.map(async ({ url, body }) => {
        const answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body, redirect: "manual" });
        return answer.json();
      }));
      if (!answers.every(({ ok }) => ok)) throw new Error("the Bot API refused a request");
      await run(settle);
      message.ack();
    }
  },
};
