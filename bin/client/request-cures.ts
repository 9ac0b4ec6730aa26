/** Names the command that helps when the host refuses a request, where the request alone decides that. */
import type { HostRefusal } from '../../client/errors.ts'
import { quoteWord } from '../../protocol/quote-word.ts'

interface RequestCure {
  readonly request: RegExp
  readonly statuses: readonly number[]
  /** @param words the groups of the request, as words of a shell */
  readonly cure: (...words: string[]) => string
}

const CURES: readonly RequestCure[] = [
  {
    request: /^\w+ \/api\/pulls\/[^/]+\/\d+(?:\/|$)/,
    statuses: [404],
    cure: () => 'switchyard pulls',
  },
  {
    request: /^POST \/api\/pulls\/([^/]+)\/(\d+)\//,
    statuses: [400, 409],
    cure: (repo = '', number = '') => `switchyard pulls show ${repo} ${number}`,
  },
  { request: /^GET \/api\/pulls(?:\?|$)/, statuses: [400], cure: () => 'switchyard doctor' },
  {
    request: /^GET \/api\/runs\/([^/]+)\/artifacts\//,
    statuses: [404],
    cure: (run = '') => `switchyard runs artifacts ${run}`,
  },
  { request: /^POST \/api\/tickets$/, statuses: [400], cure: () => 'switchyard config get repos' },
  { request: /^POST \/api\/tickets$/, statuses: [409], cure: () => 'switchyard doctor' },
  {
    request: /^DELETE \/api\/workers\/([^/]+)$/,
    statuses: [400],
    cure: (worker = '') => `switchyard workers drain ${worker}`,
  },
]

/** The host names a wrong field of the request. Only the repository is a name that another command lists. */
const WRONG_FIELD = /^\/(?!repo:)/

export function cureOfRequest({
  request,
  status,
  message,
}: Pick<HostRefusal, 'request' | 'status' | 'message'>): string | undefined {
  if (WRONG_FIELD.test(message)) return undefined
  for (const { request: pattern, statuses, cure } of CURES) {
    const found = statuses.includes(status) ? pattern.exec(request) : null
    if (found !== null) return cure(...found.slice(1).map((part) => quoteWord(decodeURIComponent(part))))
  }
  return undefined
}
