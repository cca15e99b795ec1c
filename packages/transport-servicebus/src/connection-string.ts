/** Where the namespace is, and who we are there. */
export interface NamespaceAddress {
  /** `contoso.servicebus.windows.net`, with the port where the connection string gives one. */
  readonly host: string;
  /** For the SDK's clients: the string without Whizbang's own options. Undefined for `sb://` URLs, which go with a credential. */
  readonly connectionString: string | undefined;
  /** The only entity that the key is good for, when the string says so. */
  readonly entityPath: string | undefined;
}

interface ParsedString {
  readonly address: NamespaceAddress | undefined;
  /** Whizbang's options in the string. */
  readonly options: readonly (readonly [name: string, value: string])[];
}

const azureKeys = new Map(
  ['Endpoint', 'SharedAccessKeyName', 'SharedAccessKey', 'SharedAccessSignature', 'EntityPath']
    .concat('UseDevelopmentEmulator')
    .map((key) => [key.toLowerCase(), key]),
);

/**
 * Takes `Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…` or `sb://namespace.servicebus.windows.net?…` apart. What
 * is wrong is added to `violations`, in words that hold no part of the string.
 *
 * @param optionNames Whizbang's options. In the first form they are found whatever their case: `;Sessions=false`.
 */
export function parseConnectionString(
  text: string,
  optionNames: readonly string[],
  violations: string[],
): ParsedString {
  return /^\s*sb:\/\//i.test(text) ? parseUrl(text, violations) : parsePairs(text, optionNames, violations);
}

function parseUrl(text: string, violations: string[]): ParsedString {
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch {
    violations.push('connection string: is not a URL such as sb://contoso.servicebus.windows.net');
    return { address: undefined, options: [] };
  }
  const options = [...url.searchParams];
  if (url.host === '') violations.push('connection string: has no host');
  if (url.username !== '' || url.password !== '') {
    violations.push(
      'connection string: an sb:// URL carries no keys; use Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…, or the option credential',
    );
  }
  if (url.pathname.replace('/', '') !== '') {
    violations.push('connection string: an sb:// URL has no path; destinations are named by the messages');
  }
  return { address: { host: url.host, connectionString: undefined, entityPath: undefined }, options };
}

function parsePairs(text: string, optionNames: readonly string[], violations: string[]): ParsedString {
  const ours = new Map(optionNames.map((name) => [name.toLowerCase(), name]));
  const azure = new Map<string, string>();
  const options: [string, string][] = [];
  for (const [index, pair] of text.split(';').entries()) {
    if (pair.trim() === '') continue;
    // Keys are base64 and end in "=".
    const [, key = '', value = ''] = /^\s*([^=]*?)\s*=(.*)$/s.exec(pair) ?? [];
    const azureKey = azureKeys.get(key.toLowerCase());
    const ownName = ours.get(key.toLowerCase());
    if (azureKey !== undefined) azure.set(azureKey, value.trim());
    else if (ownName !== undefined) options.push([ownName, value.trim()]);
    // A key with ";" in it would show here, so only what looks like a name is named.
    else
      violations.push(
        `connection string: part ${index + 1}${/^[A-Za-z]{1,40}$/.test(key) && value !== '' ? `, "${key}",` : ''} is not known`,
      );
  }
  return { address: addressOf(azure, violations), options };
}

function addressOf(azure: ReadonlyMap<string, string>, violations: string[]): NamespaceAddress | undefined {
  const wrong = (sentence: string): void => void violations.push(`connection string: ${sentence}`);
  const endpoint = /^sb:\/\/([^/\s]+)\/?$/i.exec(azure.get('Endpoint') ?? '');
  const has = (key: string): boolean => (azure.get(key) ?? '') !== '';
  if (endpoint === null) wrong('Endpoint must be there, and be like sb://contoso.servicebus.windows.net/');
  if (has('SharedAccessSignature')) {
    if (has('SharedAccessKey') || has('SharedAccessKeyName')) {
      wrong('has a SharedAccessSignature and a SharedAccessKey; one of them is enough');
    }
  } else {
    for (const key of ['SharedAccessKeyName', 'SharedAccessKey']) if (!has(key)) wrong(`${key} is missing`);
  }
  if (endpoint === null) return undefined;
  const host = endpoint[1] as string;
  // With an EntityPath the SDK refuses all other entities, though the key itself may be good for them.
  const parts = [...azure].filter(([key]) => key !== 'EntityPath').map(([key, value]) => `${key}=${value}`);
  return { host, connectionString: parts.join(';'), entityPath: azure.get('EntityPath') };
}
