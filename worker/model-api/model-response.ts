/** The parts of a vendor's answer that an agent receives: whether it may pass, and with which headers. */
import type { UpstreamResponse } from './model-upstream.ts'
import { mayReturn } from './passing-headers.ts'

/** The agent receives nothing of the account, and nothing of the connection. */
export function headersToPass(
  headers: UpstreamResponse['headers'],
  mask: (text: string) => string,
): Record<string, string> {
  const passed: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || !mayReturn(name)) continue
    passed[name] = mask(typeof value === 'string' ? value : value.join(', '))
  }
  return passed
}

/** Why an answer cannot be passed on; undefined: it can. */
export function findAnswerProblem({ status, headers }: UpstreamResponse): string | undefined {
  if (status >= 300 && status < 400) return `it answered with the redirect ${status}, and none is followed`
  const encoding = String(headers['content-encoding'] ?? 'identity')
  return encoding === 'identity' ? undefined : 'its answer is compressed, although the request forbids that'
}

/** Error codes of connections. Messages of libraries could repeat parts of a request. */
export function explainBrokenAnswer(error: unknown): string {
  const cause: unknown = Object(error).cause
  const codes = [Object(error).code, Object(cause).code].filter((code) => typeof code === 'string')
  return codes.length === 0 ? 'the connection broke' : codes.join(', ')
}
