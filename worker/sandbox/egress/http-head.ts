/**
 * `checkHttpHead` lets one plain HTTP request through a tunnel if its `Host` is the host that the tunnel is for.
 *
 * An allowed host may share its address with others, and would answer for them by that line. The request leaves with
 * `Connection: close`, so the server reads no second one, whose `Host` nobody has seen.
 */

export type HttpVerdict = 'wait' | { readonly pass: Buffer } | { readonly why: string }

const HEAD_BYTES_MAX = 32 * 1024
const HEAD_END = '\r\n\r\n'
/** An address in this place would count more than the `Host`. */
const REQUEST_LINE = /^[A-Z]{1,20} [/*][!-~]* HTTP\/1\.[01]$/
/** No folded lines and no spaces before the colon, which servers read differently. */
const FIELD = /^([\w!#$%&'*+.^`|~-]+):[\t ]*([\t -~\x80-\xff]*?)[\t ]*$/

export function checkHttpHead(held: Buffer, host: string): HttpVerdict {
  const end = held.indexOf(HEAD_END)
  if (end < 0) return held.length > HEAD_BYTES_MAX ? { why: 'its HTTP head is too long' } : 'wait'
  const [line = '', ...rest] = held.toString('latin1', 0, end).split('\r\n')
  const fields = rest.map((each) => FIELD.exec(each))
  if (!REQUEST_LINE.test(line) || fields.includes(null))
    return { why: 'it does not begin with an HTTP request' }
  const valuesOf = (name: string) =>
    fields.flatMap((each) => (each?.[1]?.toLowerCase() === name ? [each[2]] : []))
  const hosts = valuesOf('host').map((value = '') => value.toLowerCase().replace(/:80$/, ''))
  if (hosts.length !== 1 || hosts[0] !== host) return { why: `the Host of its HTTP request is not ${host}` }
  const kept = rest.filter((_, at) => !/^(?:connection|upgrade|keep-alive)$/i.test(fields[at]?.[1] ?? ''))
  const head = [line, ...kept, 'Connection: close'].join('\r\n')
  return { pass: Buffer.concat([Buffer.from(head, 'latin1'), held.subarray(end)]) }
}
