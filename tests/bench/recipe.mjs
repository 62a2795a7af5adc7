// Turns recorded batches into a recipe that the baseline can run again and again: what differs from turn to turn of one
// user is made fresh, what differs from user to user is that user's own, the rest is constant.

const ID = /\b(?:turn|req|session|conv|lease|key|event|msg|jwt)_00[0-9A-Za-z_-]{8,40}/g;
const HASHES = /^[A-Za-z0-9_-]{43}$|^[0-9a-f]{32,64}$/;
const isTime = (value) => typeof value === "number" && value > 1_600_000_000_000 && value < 4_000_000_000_000;

/** The names in a text of one turn that the previous turn's text did not have: they must be fresh each time. */
function freshNames(text, before) {
  const found = text.match(ID) ?? [];
  if (HASHES.test(text)) found.push(text);
  return [...new Set(found)].filter((name) => !before.includes(name));
}

const split = (name) => {
  const prefix = name.match(/^[a-z]+_00/)?.[0] ?? "";
  return [name, prefix, name.length - prefix.length];
};

/** One bind as the baseline makes it. `steps` is how many turns lie between the two recordings. */
function bindOf(value, before, startedAt) {
  if (value?.bytes) return { bytes: value.bytes };
  if (isTime(value) && value !== before) return { time: value - startedAt };
  if (typeof value === "number" && typeof before === "number" && value !== before) {
    return { counter: value, step: value - before };
  }
  if (typeof value === "string" && value !== before) {
    // Times inside JSON stay as recorded; only names must never repeat.
    const names = freshNames(value, typeof before === "string" ? before : "").map(split);
    return { text: value, names };
  }
  return { constant: value };
}

function bindsOf(turn, before) {
  const times = turn.flatMap((batch) => batch.statements.flatMap(({ binds }) => binds.filter(isTime)));
  const startedAt = Math.max(...times);
  return turn.map((batch, index) =>
    batch.statements.map((statement, at) =>
      statement.binds.map((value, place) => bindOf(value, before[index].statements[at].binds[place], startedAt)),
    ),
  );
}

const shape = (turn) => JSON.stringify(turn.map((batch) => batch.statements.map(({ sql }) => sql)));

/**
 * `recordings` holds, per user, the batches of two consecutive turns: [[batch…], [batch…]]. `critical` is how many of
 * the batches come before the answer. All turns must have run the same statements.
 */
export function makeRecipe(recordings, critical) {
  const shapes = new Set(recordings.flatMap((turns) => turns.map(shape)));
  if (shapes.size !== 1) throw new Error(`the recorded turns ran ${shapes.size} different sequences of statements`);
  const [[, example]] = recordings;
  return {
    batches: example.map((batch) => batch.statements.map(({ sql }) => sql)),
    critical,
    users: recordings.map(([before, turn]) => bindsOf(turn, before)),
  };
}
