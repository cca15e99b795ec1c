const tlsErrorCode = /^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|HOSTNAME_MISMATCH$|EPROTO$)/;

/** Whether Node gives this code to errors of TLS: a certificate that is refused, or no protocol in common. */
export function isTlsErrorCode(code: string): boolean {
  return tlsErrorCode.test(code);
}
