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

/** Every bind of a turn with its place: [value, [batch, statement, bind]]. */
const placed = (turn) =>
  turn.flatMap((batch, index) => batch.statements.flatMap(({ binds }, at) => binds.map((value, place) => [value, [index, at, place]])));
const at = (turn, [index, statement, place]) => turn[index].statements[statement].binds[place];

/** What one turn's binds are made of, by comparison with the turn before. */
function recipeOf(before, turn) {
  const moved = placed(turn).filter(([value, place]) => isTime(value) && value !== at(before, place));
  const old = new Map(placed(before).filter(([value]) => isTime(value)));
  // A time of the turn before is what this one expects to find; every other one that moved is its own.
  const own = moved.filter(([value]) => !old.has(value));
  const start = Math.min(...own.map(([value]) => value));
  const isOwn = new Set(own.map(([, place]) => place.join()));
  const source = (value) => placed(before).find(([known, place]) => known === value && isOwn.has(place.join()))?.[1];

  const bindOf = (value, place) => {
    const earlier = at(before, place);
    if (value?.bytes) return { bytes: value.bytes };
    if (value === earlier) return { constant: value };
    if (isTime(value)) return isOwn.has(place.join()) ? { time: value - start } : { previous: source(value) };
    if (typeof value === "number" && typeof earlier === "number") return { counter: value, step: value - earlier };
    if (typeof value === "string") {
      // Times inside JSON stay as recorded; only names must never repeat.
      return { text: value, names: freshNames(value, typeof earlier === "string" ? earlier : "").map(split) };
    }
    return { constant: value };
  };
  return {
    recorded: turn.map((batch) => batch.statements.map(({ binds }) => binds.map((value) => (isTime(value) ? value : null)))),
    batches: turn.map((batch, index) =>
      batch.statements.map(({ binds }, statement) => binds.map((value, place) => bindOf(value, [index, statement, place]))),
    ),
  };
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
    users: recordings.map(([before, turn]) => recipeOf(before, turn)),
  };
}
