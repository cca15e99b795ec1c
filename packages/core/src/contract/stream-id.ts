import { v5, validate } from 'uuid';

// The namespace of all Whizbang streams. Never to be changed: stream ids of stored rows were made with it.
const streamNamespace = '6f1d7f3c-9a54-4f0e-8a67-1f2f4f7c2b11';
const emptyUuid = '00000000-0000-0000-0000-000000000000';

export function isUuid(text: string): boolean {
  return validate(text);
}

export function isEmptyUuid(text: string): boolean {
  return text === emptyUuid;
}

/** The stream's UUID: a UUID key as it is (in lower case), any other text as UUIDv5. */
export function streamIdOf(key: string): string {
  return validate(key) ? key.toLowerCase() : v5(key, streamNamespace);
}

/** A message id that is no UUID, as foreign senders may use, made into one; the same text gives the same id. */
export function messageIdOf(id: string, source: string): string {
  return validate(id) ? id.toLowerCase() : v5(`${source}\n${id}`, streamNamespace);
}
