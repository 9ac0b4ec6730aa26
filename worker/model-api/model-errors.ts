/** Words the proxy's refusals in the vendor's own form, so that agents report them like the vendor's errors. */
import type { ModelErrorStyle } from './model-access.ts'

/** `budget`: nothing more may be spent. `upstream`: the vendor gave no usable answer. */
export type ModelErrorKind = 'request' | 'size' | 'busy' | 'budget' | 'upstream'

/** The worker answers a request itself, and says why. */
export class ModelRefusal extends Error {
  readonly kind: ModelErrorKind

  constructor(kind: ModelErrorKind, why: string) {
    super(why)
    this.kind = kind
  }
}

interface ModelErrorForm {
  readonly status: number
  readonly anthropic: string
  readonly google: string
}

/** Agents try again after `busy` and `upstream` only. */
const FORMS: Readonly<Record<ModelErrorKind, ModelErrorForm>> = {
  request: { status: 403, anthropic: 'permission_error', google: 'PERMISSION_DENIED' },
  size: { status: 413, anthropic: 'request_too_large', google: 'INVALID_ARGUMENT' },
  busy: { status: 503, anthropic: 'overloaded_error', google: 'UNAVAILABLE' },
  budget: { status: 403, anthropic: 'permission_error', google: 'PERMISSION_DENIED' },
  upstream: { status: 502, anthropic: 'api_error', google: 'UNAVAILABLE' },
}

export interface ModelErrorReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export function modelError(style: ModelErrorStyle, kind: ModelErrorKind, why: string): ModelErrorReply {
  const body = JSON.stringify(errorBody(style, kind, `switchyard: ${why}`))
  return {
    status: FORMS[kind].status,
    headers: {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      ...(kind === 'budget' ? { 'x-should-retry': 'false' } : {}),
      connection: 'close',
    },
    body,
  }
}

function errorBody(style: ModelErrorStyle, kind: ModelErrorKind, message: string): object {
  const { status, anthropic, google } = FORMS[kind]
  if (style === 'anthropic') return { type: 'error', error: { type: anthropic, message } }
  if (style === 'google') return { error: { code: status, message, status: google } }
  return { error: { message, type: anthropic, param: null, code: `switchyard_${kind}` } }
}
