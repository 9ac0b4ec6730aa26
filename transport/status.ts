/**
 * Maps refusals to HTTP status codes.
 *
 * The type makes the table complete: a new kind of refusal does not compile without a status. The remaining codes are
 * used only by the listeners themselves.
 */
import type { RefusalKind } from '../core/result.ts'

export const STATUS_OF: Readonly<Record<RefusalKind, number>> = {
  invalid: 400,
  unauthorized: 401,
  forbidden: 403,
  unknown: 404,
  conflict: 409,
  gone: 410,
  failed: 500,
  unavailable: 503,
}

const REASON_PHRASES: Readonly<Record<number, string>> = {
  200: 'OK',
  204: 'No Content',
  302: 'Found',
  304: 'Not Modified',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  413: 'Payload Too Large',
  426: 'Upgrade Required',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  505: 'HTTP Version Not Supported',
}

/** Code and reason phrase, such as `404 Not Found`. */
export function statusLine(status: number): string {
  return `${status} ${REASON_PHRASES[status] ?? 'Other'}`
}
