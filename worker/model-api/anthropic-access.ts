/** The API of agentA, Claude Code: a key or the token of a subscription, at the same address. */
import { yes } from '../../core/result.ts'
import { type ModelRoute, type OpenModelAccess, readKeyLine } from './model-access.ts'

const ORIGIN = 'https://api.anthropic.com'
const ROUTES: readonly ModelRoute[] = [
  { method: 'POST', path: /^\/v1\/messages(\/count_tokens)?$/ },
  { method: 'GET', path: /^\/v1\/models(\/[\w.-]+)?$/ },
]
/** A token of a subscription works only with this value, which the agent's program adds itself. */
const OAUTH_BETA = 'oauth-2025-04-20'
const TOKEN_PREFIX = 'sk-ant-oat'

export const openAnthropicAccess: OpenModelAccess = ({ kind, value }) => {
  const read = readKeyLine(value)
  if (!read.ok) return read
  const key = read.value
  const api = {
    origin: ORIGIN,
    basePath: '',
    routes: ROUTES,
    errorStyle: 'anthropic',
    secrets: [key],
  } as const
  if (kind === 'api-key' && !key.startsWith(TOKEN_PREFIX)) {
    const placeholder = { kind, value: 'sk-ant-api03-placeholder-the-worker-adds-the-key' } as const
    return yes({ ...api, credentialHeaders: () => ({ 'x-api-key': key }), placeholder })
  }
  return yes({
    ...api,
    credentialHeaders: (sent) => ({
      authorization: `Bearer ${key}`,
      'anthropic-beta': withBeta(sent['anthropic-beta'] ?? ''),
    }),
    placeholder: { kind: 'oauth-token', value: `${TOKEN_PREFIX}01-placeholder-the-worker-adds-the-token` },
  })
}

function withBeta(sent: string): string {
  const names = sent.split(',').map((name) => name.trim())
  return [...new Set([...names.filter(Boolean), OAUTH_BETA])].join(',')
}
