/**
 * Calls GitHub's REST and GraphQL APIs with one token, through the rate-limited client of that token.
 *
 * GET replies are cached by ETag, so an unchanged list costs almost nothing. Lists follow GitHub's page links: in
 * parallel when the page count is known, and never to another origin, because the token goes along.
 */
import type { Urgency } from '../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { parseJson } from '../../protocol/parse.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { isRemote } from '../codehost/remote-name.ts'
import type { ClientPool, RateLimitedClient, ReplyProjection } from '../http/client-types.ts'
import type { HttpReply, HttpRequest } from '../http/http-types.ts'
import { readField } from '../http/reply-fields.ts'
import { type GithubAddress, parseGithubAddress } from './address.ts'
import { type RefusalSubject, toGraphqlRefusal, toRefusal, unexpectedReply } from './errors.ts'
import { GITHUB_RATE_LIMITS } from './rate-limits.ts'

export const PAGE_ITEMS_MAX = 100
/** Items with prose may take 256 KiB each, and a page must fit the reply limit. */
export const PROSE_PAGE_ITEMS_MAX = 50
/** A pull request contains both repositories, with hundreds of fields. */
export const ANSWER_KEYS_MAX = 500_000

export interface GithubAccount {
  readonly apiUrl?: string | undefined
  readonly token: string
  /** Configuration field with the address, for error messages. */
  readonly apiUrlField?: string
}

export interface GithubListRequest {
  readonly subject: RefusalSubject
  readonly urgency: Urgency
  readonly pagesMax: number
  /** Field of the reply that holds the list; absent: the reply is the list. */
  readonly listField?: string
  readonly projection?: ReplyProjection
  /** Reads the last pages of a longer list instead of the first. */
  readonly keepsNewest?: true
}

export interface GithubList {
  readonly items: readonly unknown[]
  /** The list has more items than were read. */
  readonly hasMore: boolean
}

export interface GithubGraphqlRequest {
  readonly query: string
  readonly variables: Readonly<Record<string, unknown>>
  readonly subject: RefusalSubject
  readonly writes?: boolean
  /** Absent: a person waits. */
  readonly urgency?: Urgency
}

export function createGithubApi(account: GithubAccount, clients: ClientPool): Result<GithubApi> {
  const address = parseGithubAddress(account.apiUrl, account.apiUrlField)
  if (!address.ok) return address
  const client = clients.clientFor(GITHUB_RATE_LIMITS, new URL(address.value.api).origin, account.token)
  return yes(new GithubApi(address.value, account.token, client))
}

/** API path of a repository whose name is safe in a path. */
export function repoPath(remote: string): Result<string> {
  return isRemote(remote)
    ? yes(`/repos/${remote}`)
    : no('invalid', `${printable(remote)} is not a repository name of the form owner/name`)
}

export class GithubApi {
  readonly address: GithubAddress
  readonly #token: string
  readonly #client: RateLimitedClient

  constructor(address: GithubAddress, token: string, client: RateLimitedClient) {
    this.address = address
    this.#token = token
    this.#client = client
  }

  /** Answers a reply of any status. */
  get(path: string, urgency: Urgency): Promise<Result<HttpReply>> {
    return this.#get(`${this.address.api}${path}`, urgency)
  }

  async read(path: string, subject: RefusalSubject, urgency: Urgency): Promise<Result<unknown>> {
    return parseReply(await this.get(path, urgency), subject)
  }

  async list(path: string, request: GithubListRequest): Promise<Result<GithubList>> {
    const { pagesMax } = request
    const first = await this.#readPage(`${this.address.api}${path}`, request)
    if (!first.ok) return first
    const { next, pageCount } = first.value
    if (next === undefined) return yes({ items: first.value.items, hasMore: false })
    const isTruncated = pageCount !== undefined && pageCount > pagesMax
    const readsTail = isTruncated && request.keepsNewest === true
    const range = readsTail ? { from: pageCount - pagesMax + 1, to: pageCount } : { from: 2, to: pagesMax }
    const rest =
      pageCount === undefined
        ? await this.#readPagesInSequence(next, request)
        : await this.#readPagesInParallel(next, { ...range, to: Math.min(pageCount, range.to) }, request)
    if (!rest.ok) return rest
    const items = [...(readsTail ? [] : first.value.items), ...rest.value.items]
    return yes({ items, hasMore: rest.value.hasMore || isTruncated })
  }

  /** Sends with the urgency of a waiting person; answers a reply of any status. */
  send(method: HttpRequest['method'], path: string, body?: object): Promise<Result<HttpReply>> {
    return this.#client.send({
      method,
      url: `${this.address.api}${path}`,
      headers: this.#headers(body !== undefined),
      urgency: 'person',
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  }

  async write(
    method: HttpRequest['method'],
    path: string,
    subject: RefusalSubject,
    body?: object,
  ): Promise<Result<unknown>> {
    return parseReply(await this.send(method, path, body), subject)
  }

  /** Answers the field `data`. */
  async graphql({
    query,
    variables,
    subject,
    writes = false,
    urgency = 'person',
  }: GithubGraphqlRequest): Promise<Result<unknown>> {
    const reply = await this.#client.send({
      method: 'POST',
      url: this.address.graphql,
      headers: this.#headers(true),
      body: JSON.stringify({ query, variables }),
      urgency,
      writes,
    })
    const body = parseReply(reply, subject)
    if (!body.ok) return body
    const refused = toGraphqlRefusal(body.value, subject)
    if (refused !== undefined) return refused
    const data = readField(body.value, 'data')
    // A reply with neither data nor errors is unexpected.
    return typeof data === 'object' && data !== null ? yes(data) : unexpectedReply(subject)
  }

  #get(url: string, urgency: Urgency, projection?: ReplyProjection): Promise<Result<HttpReply>> {
    const headers = this.#headers(false)
    const optional = projection === undefined ? {} : { projection }
    return this.#client.send({ method: 'GET', url, headers, urgency, cached: true, ...optional })
  }

  #headers(hasBody: boolean): Record<string, string> {
    return {
      accept: 'application/vnd.github+json',
      'x-github-api-version': '2022-11-28',
      'user-agent': 'switchyard',
      authorization: `Bearer ${this.#token}`,
      ...(hasBody ? { 'content-type': 'application/json; charset=utf-8' } : {}),
    }
  }

  // ---- pages --------------------------------------------------------------------------------------------------------

  async #readPage(
    url: string,
    { subject, urgency, listField, projection }: GithubListRequest,
  ): Promise<Result<GithubPage>> {
    const reply = await this.#get(url, urgency, projection)
    const value = parseReply(reply, subject)
    if (!reply.ok || !value.ok) return value.ok ? unexpectedReply(subject) : value
    const items = listField === undefined ? value.value : readField(value.value, listField)
    if (!Array.isArray(items)) return unexpectedReply(subject)
    return yes({ items, ...this.#parsePageLinks(reply.value.headers.link) })
  }

  /** Cursor links do not tell the page count, so these pages are read one by one. */
  async #readPagesInSequence(first: URL, request: GithubListRequest): Promise<Result<GithubList>> {
    const items: unknown[] = []
    let next: URL | undefined = first
    for (let pages = 1; next !== undefined; pages++) {
      if (pages >= request.pagesMax) return yes({ items, hasMore: true })
      const page: Result<GithubPage> = await this.#readPage(next.href, request)
      if (!page.ok) return page
      items.push(...page.value.items)
      next = page.value.next
    }
    return yes({ items, hasMore: false })
  }

  async #readPagesInParallel(
    next: URL,
    { from, to }: { readonly from: number; readonly to: number },
    request: GithubListRequest,
  ): Promise<Result<GithubList>> {
    const numbers = Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => from + index)
    const read = await Promise.all(numbers.map((number) => this.#readPage(pageUrl(next, number), request)))
    const items: unknown[] = []
    for (const page of read) {
      if (!page.ok) return page
      items.push(...page.value.items)
    }
    return yes({ items, hasMore: false })
  }

  #parsePageLinks(header: string | undefined): Pick<GithubPage, 'next' | 'pageCount'> {
    const next = this.#findLink(header, 'next')
    if (next === undefined) return {}
    const last = this.#findLink(header, 'last')?.searchParams.get('page') ?? ''
    const isCounted = next.searchParams.get('page') === '2' && /^\d{1,6}$/.test(last)
    return { next, ...(isCounted ? { pageCount: Number(last) } : {}) }
  }

  /** Ignores links to other origins or paths, which must not receive the token. */
  #findLink(header: string | undefined, relation: string): URL | undefined {
    const links = [...(header ?? '').matchAll(/<([^<>]*)>([^<]*)/g)]
    const target = links.find(([, , attributes]) => attributes?.includes(`rel="${relation}"`))?.[1]
    if (target === undefined || !URL.canParse(target)) return undefined
    const url = new URL(target)
    const api = new URL(`${this.address.api}/`)
    return url.origin === api.origin && url.pathname.startsWith(api.pathname) ? url : undefined
  }
}

interface GithubPage {
  readonly items: readonly unknown[]
  readonly next?: URL
  /** Absent when pages are not numbered. */
  readonly pageCount?: number
}

function pageUrl(next: URL, number: number): string {
  const url = new URL(next)
  url.searchParams.set('page', String(number))
  return url.href
}

/** JSON of a successful reply; undefined when its body is empty. */
export function parseReply(reply: Result<HttpReply>, subject: RefusalSubject): Result<unknown> {
  if (!reply.ok) return reply
  const { status, text } = reply.value
  if (status < 200 || status > 299) return toRefusal(reply.value, subject)
  if (text === '') return yes(undefined)
  const parsed = parseJson(text, ANSWER_KEYS_MAX)
  return parsed.ok ? yes(parsed.value) : unexpectedReply(subject)
}
