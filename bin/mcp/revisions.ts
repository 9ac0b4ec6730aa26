/**
 * The revisions of the Model Context Protocol that the server speaks.
 *
 * Up to 2025-11-25 a session begins with `initialize`. From 2026-07-28 on each request names its revision and the
 * client's capabilities in `_meta`, and `server/discover` takes the place of `initialize`. A client may use either form.
 */
import { isObject } from '../../protocol/schema-errors.ts'
import { INVALID_PARAMS, type RpcError, type RpcParams, UNSUPPORTED_VERSION } from './json-rpc.ts'

/** Revisions that are negotiated by `initialize`, the newest first. */
const SESSION_REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07'] as const
/** Revisions that each request names. */
const REQUEST_REVISIONS = ['2026-07-28'] as const

export const REVISIONS: readonly string[] = [...REQUEST_REVISIONS, ...SESSION_REVISIONS]

const META = 'io.modelcontextprotocol'

/** The revision for a client that asks for `requested`: the same, or the newest of ours. */
export function negotiateRevision(requested: string): string {
  return SESSION_REVISIONS.find((revision) => revision === requested) ?? SESSION_REVISIONS[0]
}

/** How a request is spoken: `session` after `initialize`, or on its own. */
export type Dialect = 'session' | 'request'

export type DialectAnswer =
  | { readonly ok: true; readonly dialect: Dialect }
  | { readonly ok: false; readonly error: RpcError }

export function dialectOf({ _meta }: RpcParams): DialectAnswer {
  const meta = isObject(_meta) ? _meta : {}
  const requested = meta[`${META}/protocolVersion`]
  if (requested === undefined) return { ok: true, dialect: 'session' }
  if (!REQUEST_REVISIONS.some((revision) => revision === requested))
    return {
      ok: false,
      error: {
        code: UNSUPPORTED_VERSION,
        message: 'this revision of the protocol is not supported',
        data: { supported: REVISIONS, requested: String(requested) },
      },
    }
  if (isObject(meta[`${META}/clientCapabilities`])) return { ok: true, dialect: 'request' }
  const message = `_meta must have ${META}/clientCapabilities, an object`
  return { ok: false, error: { code: INVALID_PARAMS, message } }
}

/** The tools stay the same while the process runs. */
const CACHE_MS = 3_600_000

/** Adds what results of the newer revision must have. */
export function completeResult(result: object, serverInfo: object, mayCache: boolean): object {
  return {
    resultType: 'complete',
    ...result,
    ...(mayCache ? { ttlMs: CACHE_MS, cacheScope: 'private' } : {}),
    _meta: { [`${META}/serverInfo`]: serverInfo },
  }
}
