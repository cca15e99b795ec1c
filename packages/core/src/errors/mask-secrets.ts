/**
 * Replaces the secret parts of connection strings found anywhere in a text: the password of a URL's authority (also one that
 * should have been percent-encoded), `password=`-like parameters, quoted or not, members (`"password": "…"`), and
 * `SharedAccessKey=` of Service Bus strings.
 */
export function maskSecrets(text: string): string {
  return text
    .replaceAll(/([a-z][a-z0-9+.-]*:\/\/[^\s:/?#@]*):[^\s]*@/gi, '$1:***@')
    .replaceAll(/\b(password|passwd|pwd|secret|token)(["']?\s*:\s*)(["'])(?:(?!\3).)*\3/gi, '$1$2$3***$3')
    .replaceAll(
      /\b(SharedAccessKey|SharedAccessSignature|password|passwd|pwd|secret|token)(\s*=\s*)("[^"]*"|'[^']*'|[^\s;&"']+)/gi,
      '$1$2***',
    );
}
