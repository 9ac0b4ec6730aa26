/**
 * This file parses a callback address that a person pastes: the whole address, or only its query string.
 *
 * A browser on another machine than the service cannot open the address itself.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { TrackerCallbackQuery } from '../../protocol/connect.ts'
import { createQueryReader } from '../../protocol/query.ts'
import { routes } from '../../protocol/routes.ts'

const { path } = routes.trackerCallback
const readCallback = createQueryReader(TrackerCallbackQuery)
const EXPECTED = `must be the whole address that the browser could not open, with ${path}?code=…&state=… in it`

/** Returns the query with which the browser would have called the callback route. */
export function readPastedCallback(pasted: string): Result<TrackerCallbackQuery> {
  const query = parseAddress(pasted.trim())
  if (query === undefined) return no('invalid', `/address: ${EXPECTED}`)
  const read = readCallback(query)
  if (!read.ok) return no('invalid', read.error.replace(/^\/query/, '/address'))
  const { state, code, error } = read.value
  const isWhole = state !== undefined && (code !== undefined || error !== undefined)
  return isWhole ? yes(read.value) : no('invalid', `/address: ${EXPECTED}`)
}

function parseAddress(pasted: string): URLSearchParams | undefined {
  if (pasted.startsWith('?')) return new URLSearchParams(pasted.replace(/#.*$/s, ''))
  // Address bars hide the scheme.
  const address = /^[a-z]+:\/\//i.test(pasted) ? pasted : `http://${pasted}`
  if (!/^https?:/i.test(address) || !URL.canParse(address)) return undefined
  const { pathname, searchParams } = new URL(address)
  return pathname === path ? searchParams : undefined
}
