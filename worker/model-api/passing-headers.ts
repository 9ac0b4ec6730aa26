/**
 * Lists the headers that pass between a sandbox and a vendor; every other stays behind.
 *
 * A list of what is forbidden would miss the spellings of gateways (`x_api_key`), fields that change what a request is
 * (`x-http-method-override`), and whatever a vendor invents next. The account behind an answer is nobody's concern inside.
 */

interface PassingFields {
  readonly names: ReadonlySet<string>
  readonly beginnings: readonly string[]
  readonly limits?: RegExp
}

const REQUEST_FIELDS: PassingFields = {
  names: new Set([
    'accept',
    'accept-language',
    'user-agent',
    'x-app',
    'x-client-request-id',
    // Claude Code
    'anthropic-beta',
    'anthropic-dangerous-direct-browser-access',
    'anthropic-version',
    // Codex: one session's requests reach the same cache.
    'conversation_id',
    'openai-beta',
    'originator',
    'session-id',
    'session_id',
    'thread-id',
    'version',
    'x-codex-beta-features',
    'x-codex-parent-thread-id',
    'x-codex-turn-metadata',
    'x-codex-turn-state',
    'x-codex-window-id',
    'x-openai-subagent',
    'x-responsesapi-include-timing-metrics',
    // Gemini CLI
    'x-goog-api-client',
  ]),
  beginnings: ['x-stainless-'],
}

const ANSWER_FIELDS: PassingFields = {
  names: new Set([
    'content-length',
    'content-type',
    'date',
    // Codex compares the list of models with `x-models-etag`.
    'etag',
    'retry-after',
    'retry-after-ms',
    'x-should-retry',
    // People name it when they ask the vendor about a request.
    'cf-ray',
    'request-id',
    'x-request-id',
    'openai-model',
    'openai-processing-ms',
    'openai-version',
    'x-codex-active-limit',
    'x-codex-turn-state',
    'x-models-etag',
    'x-reasoning-included',
  ]),
  // Agents say by these when a limit ends.
  beginnings: [
    'anthropic-ratelimit-',
    'x-codex-credits-',
    'x-codex-primary-',
    'x-codex-secondary-',
    'x-ratelimit-',
  ],
  /** The limits of single models bear their names. */
  limits: /^x-codex-[a-z0-9-]+-(?:primary|secondary)-[a-z0-9-]+$/,
}

export const mayLeave = (name: string): boolean => passes(REQUEST_FIELDS, name)
export const mayReturn = (name: string): boolean => passes(ANSWER_FIELDS, name)

function passes({ names, beginnings, limits }: PassingFields, name: string): boolean {
  return (
    names.has(name) ||
    limits?.test(name) === true ||
    (/^[a-z0-9-]+$/.test(name) && beginnings.some((beginning) => name.startsWith(beginning)))
  )
}
