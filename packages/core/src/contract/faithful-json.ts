/** The deepest nesting that is taken: PostgreSQL's and most consumers' JSON readers give up some thousands deeper. */
export const maxJsonDepth = 500;

/**
 * Writes a value as JSON that reads back as the same value, or says why it cannot. NUL characters and lone surrogates are
 * carried as escapes. A property whose value is `undefined` counts as absent.
 *
 * @throws TypeError naming the path of what JSON would lose or change: BigInt, NaN and infinities, functions, symbols,
 * holes and `undefined` in arrays, cycles, and objects other than plain ones and arrays (Date, Map, class instances …)
 */
export function faithfulJson(value: unknown): string {
  checkValue(value, '$', new Set(), 0);
  return JSON.stringify(value);
}

function checkValue(value: unknown, path: string, above: Set<object>, depth: number): void {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return;
    case 'number':
      if (!Number.isFinite(value)) {
        throw new TypeError(`${path} is ${value}, which JSON would turn into null`);
      }
      return;
    case 'bigint':
      throw new TypeError(`${path} is a BigInt, which JSON cannot hold; send it as a string`);
    case 'object':
      if (value === null) {
        return;
      }
      break;
    default:
      throw new TypeError(
        `${path} is ${value === undefined ? 'undefined' : `a ${typeof value}`}, which JSON cannot hold`,
      );
  }
  if (above.has(value)) {
    throw new TypeError(`${path} refers back to an object that contains it`);
  }
  if (depth >= maxJsonDepth) {
    throw new TypeError(`${path.slice(0, 100)}… is nested more than ${maxJsonDepth} levels deep`);
  }
  above.add(value);
  if (Array.isArray(value)) {
    checkArray(value, path);
    // A plain loop sees the holes that forEach would skip.
    for (let index = 0; index < value.length; index += 1) {
      checkValue(value[index], `${path}[${index}]`, above, depth + 1);
    }
  } else {
    checkObject(value, path, above, depth);
  }
  above.delete(value);
}

// What a regular expression found is an array with members that have names; JSON drops those.
function checkArray(value: readonly unknown[], path: string): void {
  refuseToJson(value, path);
  const keys = Object.keys(value);
  if (keys.length > value.length) {
    throw new TypeError(`${path} is an array with the member ${keys.at(-1)}, which JSON would drop`);
  }
}

function checkObject(value: object, path: string, above: Set<object>, depth: number): void {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    const name = value.constructor?.name ?? 'object';
    const advice = value instanceof Date ? '; send value.toISOString()' : '; send a plain object';
    throw new TypeError(`${path} is a ${name}, which would not arrive as one${advice}`);
  }
  refuseToJson(value, path);
  if (Object.getOwnPropertySymbols(value).length > 0) {
    throw new TypeError(`${path} has a symbol as key, which JSON would drop`);
  }
  for (const [key, member] of Object.entries(value)) {
    if (member !== undefined) {
      checkValue(member, `${path}.${key}`, above, depth + 1);
    }
  }
}

function refuseToJson(value: object, path: string): void {
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function') {
    throw new TypeError(`${path} has a toJSON method, which would change it on the way`);
  }
}

/** Whether a JSON text, which must have been parsed before, is nested deeper than `maxDepth`. */
export function isDeeperThan(maxDepth: number, json: string): boolean {
  // Most bodies are shorter than such a nest could be.
  if (json.length <= 2 * maxDepth) {
    return false;
  }
  let depth = 0;
  for (let index = 0; index < json.length; index += 1) {
    switch (json.charCodeAt(index)) {
      case 0x22: // "
        index = endOfString(json, index);
        break;
      case 0x5b: // [
      case 0x7b: // {
        depth += 1;
        if (depth > maxDepth) {
          return true;
        }
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth -= 1;
        break;
    }
  }
  return false;
}

/** The index of the quote that ends the string which begins at `start`. */
function endOfString(json: string, start: number): number {
  let end = json.indexOf('"', start + 1);
  for (; end !== -1; end = json.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (json[end - 1 - backslashes] === '\\') {
      backslashes += 1;
    }
    if (backslashes % 2 === 0) {
      return end;
    }
  }
  return json.length;
}
