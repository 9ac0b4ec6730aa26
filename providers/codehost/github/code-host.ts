/**
 * Code host driver for github.com and GitHub Enterprise Server, used by jobs.
 *
 * The token is sent only to the configured API origin, over https or to this machine. GitHub's replies are untrusted
 * and read field by field. GitHub ignores a filter that it does not understand, so a pull request counts only when its
 * branches match.
 */
import type { Clock } from '../../../core/ports/clock.ts'
import type { CodeHost, NewPullRequest, OpenPullRequest } from '../../../core/ports/code-host.ts'
import { no, type RefusalKind, type Result, yes } from '../../../core/result.ts'
import { parseJson } from '../../../protocol/parse.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { type GithubAddress, parseGithubAddress } from '../../github/address.ts'
import { errorMessage } from '../../github/errors.ts'
import { asPositiveInteger } from '../../github/fields.ts'
import { rateLimitPauseMs } from '../../github/rate-limits.ts'
import { retryAfterMs } from '../../http/http.ts'
import type { Http, HttpReply, HttpRequest } from '../../http/http-types.ts'
import { readField } from '../../http/reply-fields.ts'
import { isRemote, ownerOf } from '../remote-name.ts'

export interface GithubCodeHostOptions {
  readonly http: Http
  readonly clock: Pick<Clock, 'now'>
  /** Enterprise Server: `https://HOST/api/v3`. */
  readonly apiUrl?: string
  readonly token?: string
}

/** A head and a base have one open pull request at most; GitHub lists more only when it ignored the filter. */
const PULLS_MAX = 10
/** A pull request contains both repositories, with hundreds of fields. */
const JSON_KEYS_MAX = 100_000
const LINK = /^https?:\/\/[^\s]+$/
/** A comment may take 256 KiB, and a page must fit the reply limit. */
const COMMENTS_PER_PAGE = 50
/** Only the newest pages of a longer conversation are read. */
const COMMENT_PAGES_MAX = 20
const LAST_PAGE = /<[^<>]*[?&]page=(\d{1,6})(?:&[^<>]*)?>;[^<]*rel="last"/

interface CommentPage {
  readonly comments: readonly unknown[]
  /** 1 when the reply names no further pages. */
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
    const pull = listed.value.find((candidate) => isBetweenBranches(candidate, remote, head, base))
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

  /** Duplicates follow soon after the first match, so a page without any ends the search. */
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
      // Another process may have deleted the comment.
      if (reply.value.status !== 204 && reply.value.status !== 404)
        return this.#toRefusal(reply.value, remote)
    }
    return yes(duplicateIds.length)
  }

  /** Reads the first page for the page count, then the newest pages first, where the comment most likely is. */
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
    if (!isRemote(remote))
      return no('invalid', `${printable(remote)} is not a repository name of the form owner/name`)
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

/** Compares head and base with each other: a renamed repository has its new name on both sides, a fork differs. */
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

/** Ids of all matching comments but the first, if the author of the first wrote them. */
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

/** Reads only the page number: a reply must not choose the address that gets the token. */
const lastPageNumber = (link: string | undefined): number => Number(LAST_PAGE.exec(link ?? '')?.[1] ?? 1)

// ---- refusals --------------------------------------------------------------------------------------------------------

/** Request timeout and conflict: worth a retry, as is a server error. */
const RETRYABLE_STATUSES = new Set([408, 409])

/** Uses GitHub's clock if the reply has one, because rate limit resets refer to it. */
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
    return no('unavailable', `GitHub limits requests at the moment: ${message}; try again later`, pauseMs)
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
  return no('failed', `GitHub's reply is not a pull request of ${remote}; try again later`)
}
