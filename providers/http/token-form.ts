/**
 * Builds the request that exchanges a form for tokens, as OAuth prescribes.
 *
 * The request is sent once: a lost reply has used up the code, and a second request would find it unknown.
 */
import type { HttpRequest } from './http-types.ts'

export function tokenFormRequest(
  url: string,
  form: Readonly<Record<string, string>>,
  userAgent = 'switchyard',
): HttpRequest {
  return {
    method: 'POST',
    url,
    tries: 1,
    headers: {
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
      'user-agent': userAgent,
    },
    body: new URLSearchParams(form).toString(),
  }
}
