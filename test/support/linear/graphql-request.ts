/** Sends raw GraphQL requests to the fake, for tests that check statuses, headers and bodies. */
import type { FakeLinear } from './linear.ts'

export interface RawGraphqlReply {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: whatever was answered; the tests say what it should be
  readonly body: any
}

export async function ask(
  linear: FakeLinear,
  query: string,
  variables: object = {},
  authorization: string = linear.apiKey,
): Promise<RawGraphqlReply> {
  const headers = { authorization, 'content-type': 'application/json' }
  return replyOf(
    await fetch(linear.graphqlUrl, { method: 'POST', headers, body: JSON.stringify({ query, variables }) }),
  )
}

export async function post(url: string, form: Record<string, string>, headers: Record<string, string> = {}) {
  return replyOf(await fetch(url, { method: 'POST', headers, body: new URLSearchParams(form) }))
}

async function replyOf(response: Response): Promise<RawGraphqlReply> {
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.startsWith('application/json') ?? false
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text }
}
