/** The question that `model-vendor.ts` answers, inside a request that a vendor would take. */
export interface ModelQuestion {
  readonly events: number
  /** 0: as fast as the connection takes them. */
  readonly perMs: number
}

export const MODEL = 'claude-sonnet-5-5'

export function writeQuestion(question: ModelQuestion): string {
  const messages = [{ role: 'user', content: JSON.stringify(question) }]
  return JSON.stringify({ model: MODEL, max_tokens: 1_000, messages, stream: true })
}

export function readQuestion(body: string): ModelQuestion {
  return JSON.parse(JSON.parse(body).messages[0].content)
}
