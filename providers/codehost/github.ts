/**
 * GitHub, in the cloud or of one's own.
 *
 * The token goes to the API's own origin and to nowhere else, and over plain http only to this machine. What GitHub
 * answers is a stranger's: it is read field by field, and a pull request counts only when it is of the very branches
 * that were asked for, for a filter that GitHub does not understand it ignores.
 */
import type { Clock, CodeHost, NewPullRequest, OpenPullRequest } from '../../core/ports.ts'
import { no, type RefusalKind, type Result, yes } from '../../core/result.ts'
import { parseJson } from '../../protocol/parse.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { type Http, type HttpReply, type HttpRequest, retryAfterMs } from '../http/http.ts'
import { type GithubAddress, parseGithubAddress } from './github/endpoint.ts'
import { errorMessage } from './github/errors.ts'
import { asPositiveInteger, readField } from './github/fields.ts'
import { rateLimitPauseMs } from './github/rate-limits.ts'
import { isRemote, ownerOf } from './remote-name.ts'

export interface GithubCodeHostOptions {
  readonly http: Http
  readonly clock: Pick<Clock, 'now'>
  /** Of a server of one's own: https://HOST/api/v3. */
  readonly apiUrl?: string
  readonly token?: string
}

/** Of one head and one base there is one at most; the others are for a filter that was not understood. */
const PULLS_MAX = 10
/** One pull request carries both of its repositories, with hundreds of fields. */
const JSON_KEYS_MAX = 100_000
const LINK = /^https?:\/\/[^\s]+$/
/** A comment may have a quarter of a MiB, and a page must not be longer than an answer may be. */
const COMMENTS_PER_PAGE = 50
/** Of a conversation that is longer than that, the newest part counts. */
const COMMENT_PAGES_MAX = 20
const LAST_PAGE = /<[^<>]*[?&]page=(\d{1,6})(?:&[^<>]*)?>;[^<]*rel="last"/

interface CommentPage {
  readonly comments: readonly unknown[]
  /** How many there are; 1 where nothing is said about others. */
  readonly pageCount: number
}

export function createGithubCodeHost(options: GithubCodeHostOptions): Result<CodeHost> {
  const address = parseGithubAddress(options.apiUrl)
  return address.ok ? yes(new GithubCodeHost(options, address.value)) : address
}

class GithubCodeHost implements CodeHost {
  readonly #http: Http
  readonly #clock: Pick<Clock, 'now'>
  readonly #address: GithubAddress
  readonly #token: string | undefined

  constructor({ http, clock, token }: GithubCodeHostOptions, address: GithubAddress) {
    this.#http = http
    this.#clock = clock
    this.#address = address
    this.#token = token
  }

  gitAddress(remote: string): string {
    return `${this.#address.site}/${remote}.git`
  }

  async findPull(remote: string, head: string, base: string): Promise<Result<OpenPullRequest | undefined>> {
    const query = new URLSearchParams({
      state: 'open',
      head: `${ownerOf(remote)}:${head}`,
      base,
      per_page: String(PULLS_MAX),
    })
    const reply = await this.#request('GET', remote, `pulls?${query}`)
    if (!reply.ok) return reply
    if (reply.value.status !== 200) return this.#toRefusal(reply.value, remote)
    const listed = parseJson(reply.value.text, JSON_KEYS_MAX)
    if (!listed.ok || !Array.isArray(listed.value)) return unexpectedReply(remote)
    const pull = listed.value.find((one) => isBetweenBranches(one, remote, head, base))
    if (pull === undefined) return yes(undefined)
    return toOpenPull(pull, remote)
  }

  async openPull({
    remote,
    head,
    base,
    title,
    body,
    draft,
  }: NewPullRequest): Promise<Result<OpenPullRequest>> {
    const payload = { title, head, base, body, draft, maintainer_can_modify: true }
    const reply = await this.#request('POST', remote, 'pulls', JSON.stringify(payload))
    if (!reply.ok) return reply
    if (reply.value.status !== 201) return this.#toRefusal(reply.value, remote)
    const opened = parseJson(reply.value.text, JSON_KEYS_MAX)
    return opened.ok ? toOpenPull(opened.value, remote) : unexpectedReply(remote)
  }

  async hasComment(remote: string, number: number, text: string): Promise<Result<boolean>> {
    for await (const page of this.#commentPages(remote, number)) {
      if (!page.ok) return page
      if (page.value.some((comment) => commentBody(comment).includes(text))) return yes(true)
    }
    return yes(false)
  }

  async comment(remote: string, number: number, body: string): Promise<Result<void>> {
    const path = `issues/${number}/comments`
    const reply = await this.#request('POST', remote, path, JSON.stringify({ body }))
    if (!reply.ok) return reply
    return reply.value.status === 201 ? yes(undefined) : this.#toRefusal(reply.value, remote)
  }

  /** Repeats come soon after the first: behind it, a page without any ends the search. */
  async dropRepeats(remote: string, number: number, text: string): Promise<Result<number>> {
    const found: unknown[] = []
    for await (const page of this.#commentPages(remote, number)) {
      if (!page.ok) return page
      const matching = page.value.filter((comment) => commentBody(comment).trimEnd().endsWith(text))
      if (found.length > 0 && matching.length === 0) break
      found.push(...matching)
    }
    const duplicateIds = findDuplicateIds(found)
    for (const id of duplicateIds) {
      const reply = await this.#request('DELETE', remote, `issues/comments/${id}`)
      if (!reply.ok) return reply
      // Somebody else may have been quicker.
      if (reply.value.status !== 204 && reply.value.status !== 404)
        return this.#toRefusal(reply.value, remote)
    }
    return yes(duplicateIds.length)
  }

  /** The first page says how many there are; then the newest come first, for what is looked for is mostly new. */
  async *#commentPages(remote: string, number: number): AsyncGenerator<Result<readonly unknown[]>> {
    const first = await this.#readCommentPage(remote, number, 1)
    yield first.ok ? yes(first.value.comments) : first
    const pageCount = first.ok ? first.value.pageCount : 1
    const oldest = Math.max(2, pageCount - COMMENT_PAGES_MAX + 1)
    for (let page = pageCount; page >= oldest; page--) {
      const read = await this.#readCommentPage(remote, number, page)
      yield read.ok ? yes(read.value.comments) : read
    }
  }

  async #readCommentPage(remote: string, number: number, page: number): Promise<Result<CommentPage>> {
    const query = `per_page=${COMMENTS_PER_PAGE}&page=${page}`
    const reply = await this.#request('GET', remote, `issues/${number}/comments?${query}`)
    if (!reply.ok) return reply
    if (reply.value.status !== 200) return this.#toRefusal(reply.value, remote)
    const listed = parseJson(reply.value.text, JSON_KEYS_MAX)
    if (!listed.ok || !Array.isArray(listed.value)) return unexpectedReply(remote)
    return yes({ comments: listed.value, pageCount: lastPageNumber(reply.value.headers.link) })
  }

  #toRefusal(reply: HttpReply, remote: string) {
    return toRefusal(reply, remote, replyTimeMs(reply, this.#clock))
  }

  async #request(
    method: HttpRequest['method'],
    remote: string,
    path: string,
    body?: string,
  ): Promise<Result<HttpReply>> {
    if (!isRemote(remote)) return no('invalid', `${printable(remote)} is no repository as owner/name`)
    return this.#http.send({
      method,
      url: `${this.#address.api}/repos/${remote}/${path}`,
      headers: {
        accept: 'application/vnd.github+json',
        'x-github-api-version': '2022-11-28',
        'user-agent': 'switchyard',
        ...(body === undefined ? {} : { 'content-type': 'application/json; charset=utf-8' }),
        ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }),
      },
      ...(body === undefined ? {} : { body }),
    })
  }
}

// ---- pull requests -------------------------------------------------------------------------------------------------

function isBetweenBranches(pull: unknown, remote: string, head: string, base: string): boolean {
  const from = readField(pull, 'head', 'repo', 'full_name')
  return (
    readField(pull, 'head', 'ref') === head &&
    readField(pull, 'base', 'ref') === base &&
    typeof from === 'string' &&
    isSameRepository(from, pull, remote)
  )
}

/** A renamed repository answers with its new name, on both sides; a fork's differs from the base's. */
function isSameRepository(from: string, pull: unknown, remote: string): boolean {
  const into = readField(pull, 'base', 'repo', 'full_name')
  return from.toLowerCase() === (typeof into === 'string' ? into : remote).toLowerCase()
}

function toOpenPull(pull: unknown, remote: string): Result<OpenPullRequest> {
  const [number, url, draft] = ['number', 'html_url', 'draft'].map((name) => readField(pull, name))
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < 1)
    return unexpectedReply(remote)
  if (typeof url !== 'string' || !LINK.test(url)) return unexpectedReply(remote)
  return yes({ number, url, state: draft === true ? 'draft' : 'open' })
}

// ---- comments ------------------------------------------------------------------------------------------------------

function commentBody(comment: unknown): string {
  const body = readField(comment, 'body')
  return typeof body === 'string' ? body : ''
}

/** Numbers of all but the first, of those that are by whoever made the first. */
function findDuplicateIds(comments: readonly unknown[]): number[] {
  const known = comments.flatMap((comment) => {
    const [id, by] = [
      asPositiveInteger(readField(comment, 'id')),
      asPositiveInteger(readField(comment, 'user', 'id')),
    ]
    return id === undefined || by === undefined ? [] : [{ id, by }]
  })
  const [first, ...rest] = known.sort((a, b) => a.id - b.id)
  return rest.filter(({ id, by }) => by === first?.by && id !== first.id).map(({ id }) => id)
}

/** Only the number is taken from it: where the token goes is not for an answer to say. */
const lastPageNumber = (link: string | undefined): number => Number(LAST_PAGE.exec(link ?? '')?.[1] ?? 1)

// ---- refusals --------------------------------------------------------------------------------------------------------

/** Besides an outage, what may be otherwise when it is asked again later: it took too long, or two met. */
const RETRYABLE_STATUSES = new Set([408, 409])

/** By GitHub's own clock where it says: what it names an instant of is told by that. */
function replyTimeMs({ headers }: HttpReply, clock: Pick<Clock, 'now'>): number {
  const at = Date.parse(headers.date ?? '')
  return Number.isNaN(at) ? clock.now() : at
}

function toRefusal(reply: HttpReply, remote: string, now: number) {
  const { status } = reply
  const message = errorMessage(reply)
  if (status === 401)
    return no('unauthorized', 'GitHub refused the token; connect GitHub again, or set codehost.token')
  const pauseMs = rateLimitPauseMs(reply, now)
  if (pauseMs !== undefined)
    return no('unavailable', `GitHub wants fewer requests just now: ${message}; try again later`, pauseMs)
  if (status === 403) {
    return no(
      'forbidden',
      `GitHub does not allow this in ${remote}: ${message}; the token needs write access to pull requests`,
    )
  }
  if (status === 404) {
    return no(
      'unknown',
      `GitHub has no repository ${remote}, or the token may not see it; correct remote, or give it access`,
    )
  }
  if (status === 422 && /already exists/i.test(message)) return no('conflict', `GitHub says: ${message}`)
  const kind: RefusalKind = status >= 500 || RETRYABLE_STATUSES.has(status) ? 'failed' : 'invalid'
  const askedMs = kind === 'failed' ? retryAfterMs(reply.headers['retry-after'], now) : undefined
  return no(kind, `GitHub answered ${status} for ${remote}: ${message}`, askedMs)
}

function unexpectedReply(remote: string) {
  return no('failed', `GitHub answered something else than a pull request of ${remote}`)
}
