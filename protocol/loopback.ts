/** The addresses of this machine, as a pattern that schemas, listeners and clients share. */

/**
 * 127.0.0.0/8 in four parts without leading zeros, which some programs read as octal. The configured listen address,
 * the check of a request's Host header and clients that send a token use this rule.
 */
export const LOOPBACK_IPV4 = '127(?:\\.(?:0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])){3}'

/** The host of a listener on all addresses of its machine. */
export const isWildcard = (host: string): boolean => /^(0\.0\.0\.0|\[?::\]?|\*)$/.test(host)

export const isLoopback = (host: string): boolean =>
  /^(localhost|.*\.localhost|\[?::1\]?|127(\.\d{1,3}){3})$/i.test(host)
