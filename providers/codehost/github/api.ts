/**
 * GitHub's API as its drivers ask it: with one token, through the one courier of that token.
 *
 * Every GET is kept, so what has not changed costs next to nothing. A list is followed page by page as GitHub links
 * them, all the rest at once where it says how many there are, and never to another place: the token goes along.
 */
import type { Urgency } from '../../../core/provider-ports.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { parseJson } from '../../../protocol/parse.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { ClientPool, RateLimitedClient, ReplyProjection } from '../../http/client-types.ts'
import type { HttpReply, HttpRequest } from '../../http/http.ts'
import { isRemote } from '../remote-name.ts'
import { type GithubAddress, githubAddress } from './endpoint.ts'
import { graphqlRefusalOf, refusalOf, type Subject, strange } from './errors.ts'
import { fieldOf } from './fields.ts'
import { GITHUB_MANNERS } from './rate-limits.ts'

export const PAGE_ITEMS_MAX = 100
/** Of what people write, up to a quarter of a MiB each, so that no page is longer than an answer may be. */
export const PROSE_PAGE_ITEMS_MAX = 50
/** A page of pull requests carries both repositories of each, with hundreds of fields. */
export const ANSWER_KEYS_MAX = 500_000

export interface GithubAccount {
  readonly apiUrl?: string | undefined
  readonly token: string
  /** The field that has the address, for a sentence about it. */
  readonly field?: string
}

export interface PageOrder {
  readonly subject: Subject
  readonly urgency: Urgency
  readonly pagesMax: number
  /** Where in the answer the list is; absent: the answer is the list. */
  readonly at?: string
  readonly gist?: ReplyProjection
  /** Of a list that is longer than that, its end counts instead of its beginning. */
  readonly newest?: true
}

export interface Listed {
  readonly items: readonly unknown[]
  /** There are more than were asked for. */
  readonly more: boolean
}

export interface GraphqlOrder {
  readonly query: string
  readonly variables: Readonly<Record<string, unknown>>
  readonly subject: Subject
  readonly writes?: boolean
}

export function githubApi(account: GithubAccount, couriers: ClientPool): Result<GithubApi> {
  const address = githubAddress(account.apiUrl, account.field)
  if (!address.ok) return address
  const courier = couriers.clientFor(GITHUB_MANNERS, new URL(address.value.api).origin, account.token)
  return yes(new GithubApi(address.value, account.token, courier))
}

/** Below a repository, whose name is safe in a path. */
export function repoPath(remote: string): Result<string> {
  return isRemote(remote)
    ? yes(`/repos/${remote}`)
    : no('invalid', `${printable(remote)} is no repository as owner/name`)
}

export class GithubApi {
  readonly address: GithubAddress
  readonly #token: string
  readonly #courier: RateLimitedClient

  constructor(address: GithubAddress, token: string, courier: RateLimitedClient) {
    this.address = address
    this.#token = token
    this.#courier = courier
  }

  /** Any status. */
  get(path: string, urgency: Urgency): Promise<Result<HttpReply>> {
    return this.#get(`${this.address.api}${path}`, urgency)
  }

  async read(path: string, subject: Subject, urgency: Urgency): Promise<Result<unknown>> {
    return valueIn(await this.get(path, urgency), subject)
  }

  async list(path: string, order: PageOrder): Promise<Result<Listed>> {
    const { pagesMax } = order
    const first = await this.#page(`${this.address.api}${path}`, order)
    if (!first.ok) return first
    const { next, pages } = first.value
    if (next === undefined) return yes({ items: first.value.items, more: false })
    const isCut = pages !== undefined && pages > pagesMax
    const isEnd = isCut && order.newest === true
    const range = isEnd ? { from: pages - pagesMax + 1, to: pages } : { from: 2, to: pagesMax }
    const rest =
      pages === undefined
        ? await this.#oneByOne(next, order)
        : await this.#atOnce(next, { ...range, to: Math.min(pages, range.to) }, order)
    if (!rest.ok) return rest
    const items = [...(isEnd ? [] : first.value.items), ...rest.value.items]
    return yes({ items, more: rest.value.more || isCut })
  }

  /** Any status; a person waits. */
  send(method: HttpRequest['method'], path: string, body?: object): Promise<Result<HttpReply>> {
    return this.#courier.send({
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
    subject: Subject,
    body?: object,
  ): Promise<Result<unknown>> {
    return valueIn(await this.send(method, path, body), subject)
  }

  /** Answers `data`. */
  async graphql({ query, variables, subject, writes = false }: GraphqlOrder): Promise<Result<unknown>> {
    const reply = await this.#courier.send({
      method: 'POST',
      url: this.address.graphql,
      headers: this.#headers(true),
      body: JSON.stringify({ query, variables }),
      urgency: 'person',
      writes,
    })
    const body = valueIn(reply, subject)
    if (!body.ok) return body
    const refused = graphqlRefusalOf(body.value, subject)
    if (refused !== undefined) return refused
    const data = fieldOf(body.value, 'data')
    // It says neither yes nor no.
    return typeof data === 'object' && data !== null ? yes(data) : strange(subject)
  }

  #get(url: string, urgency: Urgency, gist?: ReplyProjection): Promise<Result<HttpReply>> {
    const headers = this.#headers(false)
    const short = gist === undefined ? {} : { gist }
    return this.#courier.send({ method: 'GET', url, headers, urgency, cached: true, ...short })
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

  // ---- pages -------------------------------------------------------------------------------------------------------

  async #page(url: string, { subject, urgency, at, gist }: PageOrder): Promise<Result<Page>> {
    const reply = await this.#get(url, urgency, gist)
    const value = valueIn(reply, subject)
    if (!reply.ok || !value.ok) return value.ok ? strange(subject) : value
    const items = at === undefined ? value.value : fieldOf(value.value, at)
    if (!Array.isArray(items)) return strange(subject)
    return yes({ items, ...this.#linksOf(reply.value.headers.link) })
  }

  /** Where they are linked by a mark, there is no telling how many there are. */
  async #oneByOne(first: URL, order: PageOrder): Promise<Result<Listed>> {
    const items: unknown[] = []
    let next: URL | undefined = first
    for (let pages = 1; next !== undefined; pages++) {
      if (pages >= order.pagesMax) return yes({ items, more: true })
      const page: Result<Page> = await this.#page(next.href, order)
      if (!page.ok) return page
      items.push(...page.value.items)
      next = page.value.next
    }
    return yes({ items, more: false })
  }

  async #atOnce(
    next: URL,
    { from, to }: { readonly from: number; readonly to: number },
    order: PageOrder,
  ): Promise<Result<Listed>> {
    const numbers = Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => from + index)
    const asked = await Promise.all(numbers.map((number) => this.#page(pageAt(next, number), order)))
    const items: unknown[] = []
    for (const page of asked) {
      if (!page.ok) return page
      items.push(...page.value.items)
    }
    return yes({ items, more: false })
  }

  #linksOf(header: string | undefined): Pick<Page, 'next' | 'pages'> {
    const next = this.#linked(header, 'next')
    if (next === undefined) return {}
    const last = this.#linked(header, 'last')?.searchParams.get('page') ?? ''
    const isCounted = next.searchParams.get('page') === '2' && /^\d{1,6}$/.test(last)
    return { next, ...(isCounted ? { pages: Number(last) } : {}) }
  }

  /** What leads out of the API gets no token. */
  #linked(header: string | undefined, relation: string): URL | undefined {
    const links = [...(header ?? '').matchAll(/<([^<>]*)>([^<]*)/g)]
    const target = links.find(([, , what]) => what?.includes(`rel="${relation}"`))?.[1]
    if (target === undefined || !URL.canParse(target)) return undefined
    const url = new URL(target)
    const api = new URL(`${this.address.api}/`)
    return url.origin === api.origin && url.pathname.startsWith(api.pathname) ? url : undefined
  }
}

interface Page {
  readonly items: readonly unknown[]
  readonly next?: URL
  /** How many there are; unknown where they are not numbered. */
  readonly pages?: number
}

function pageAt(next: URL, number: number): string {
  const url = new URL(next)
  url.searchParams.set('page', String(number))
  return url.href
}

/** What a reply that says yes holds; undefined where it holds nothing. */
export function valueIn(reply: Result<HttpReply>, subject: Subject): Result<unknown> {
  if (!reply.ok) return reply
  const { status, text } = reply.value
  if (status < 200 || status > 299) return refusalOf(reply.value, subject)
  if (text === '') return yes(undefined)
  const parsed = parseJson(text, ANSWER_KEYS_MAX)
  return parsed.ok ? yes(parsed.value) : strange(subject)
}
