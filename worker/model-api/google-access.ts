/** The API of agentC, Gemini CLI: a key. Its login renews itself and works at addresses that no setting changes. */
import { no, yes } from '../../core/result.ts'
import { type ModelRoute, type OpenModelAccess, readKeyLine } from './model-access.ts'

const ORIGIN = 'https://generativelanguage.googleapis.com'
const ROUTES: readonly ModelRoute[] = [
  {
    method: 'POST',
    path: /^\/v1(beta|alpha)?\/models\/[\w.-]+:(generateContent|streamGenerateContent|countTokens)$/,
  },
  { method: 'GET', path: /^\/v1(beta|alpha)?\/models(\/[\w.-]+)?$/ },
]

export const openGoogleAccess: OpenModelAccess = ({ kind, value }) => {
  if (kind === 'login') return no('invalid', 'this login works only inside the sandbox')
  const read = readKeyLine(value)
  if (!read.ok) return read
  return yes({
    origin: ORIGIN,
    basePath: '',
    routes: ROUTES,
    errorStyle: 'google',
    credentialHeaders: () => ({ 'x-goog-api-key': read.value }),
    secrets: [read.value],
    placeholder: { kind: 'api-key', value: 'placeholder-the-worker-adds-the-key' },
  })
}
