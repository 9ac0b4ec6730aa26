/**
 * GitHub, in the cloud or of one's own.
 *
 * The token goes to the API's own origin and to nowhere else, and over plain http only to this machine. What GitHub
 * answers is a stranger's: it is read field by field, and a pull request counts only when it is of the very branches
 * that were asked for, for a filter that GitHub does not understand it ignores.
 */
import type { CodeHost, OpenPull, PullOrder } from '../../core/ports.ts'
import { type Answer, no, type RefusalKind, yes } from '../../core/refusal.ts'
import { printable } from '../../protocol/explain.ts'
import { parseJson } from '../../protocol/parse.ts'
import type { Http, HttpReply, HttpRequest } from '../http.ts'
import { type GithubAddress, githubAddress } from './github/address.ts'
import { fieldOf } from './github/fields.ts'
import { isTooOften, messageOf } from './github/refusals.ts'
import { isRemote, ownerOf } from './remote-name.ts'

export interface GithubParts {
  readonly http: Http
  /** Of a server of one's own: https://HOST/api/v3. */
  readonly apiUrl?: string
  readonly token?: string
}

/** Of one head and one base there is one at most; the others are for a filter that was not understood. */
const PULLS_MAX = 10
/** One pull request carries both of its repositories, with hundreds of fields. */
const KEYS_MAX = 100_000
const LINK = /^https?:\/\/[^\s]+$/
/** A comment may have a quarter of a MiB, and a page must not be longer than an answer may be. */
const COMMENTS_PER_PAGE = 50
/** Of a conversation that is longer than that, the newest part counts. */
const COMMENT_PAGES_MAX = 20
const LAST_PAGE = /<[^<>]*[?&]page=(\d{1,6})(?:&[^<>]*)?>;[^<]*rel="last"/

interface CommentPage {
  readonly comments: readonly unknown[]
  /** How many there are; 1 where nothing is said about others. */
  readonly pages: number
}

export function githubCodeHost({ http, apiUrl, token }: GithubParts): Answer<CodeHost> {
  const address = githubAddress(apiUrl)
  return address.ok ? yes(new GithubCodeHost(http, address.value, token)) : address
}

class GithubCodeHost implements CodeHost {
  readonly #http: Http
  readonly #address: GithubAddress
  readonly #token: string | undefined

  constructor(http: Http, address: GithubAddress, token: string | undefined) {
    this.#http = http
    this.#address = address
    this.#token = token
  }

  gitAddress(remote: string): string {
    return `${this.#address.site}/${remote}.git`
  }

  async findPull(remote: string, head: string, base: string): Promise<Answer<OpenPull | undefined>> {
    const query = new URLSearchParams({
      state: 'open',
      head: `${ownerOf(remote)}:${head}`,
      base,
      per_page: String(PULLS_MAX),
    })
    const reply = await this.#ask('GET', remote, `pulls?${query}`)
    if (!reply.ok) return reply
    if (reply.value.status !== 200) return refusalFor(reply.value, remote)
    const listed = parseJson(reply.value.text, KEYS_MAX)
    if (!listed.ok || !Array.isArray(listed.value)) return strange(remote)
    const pull = listed.value.find((one) => isOf(one, remote, head, base))
    if (pull === undefined) return yes(undefined)
    return openPullOf(pull, remote)
  }

  async openPull({ remote, head, base, title, body, draft }: PullOrder): Promise<Answer<OpenPull>> {
    const order = { title, head, base, body, draft, maintainer_can_modify: true }
    const reply = await this.#ask('POST', remote, 'pulls', JSON.stringify(order))
    if (!reply.ok) return reply
    if (reply.value.status !== 201) return refusalFor(reply.value, remote)
    const opened = parseJson(reply.value.text, KEYS_MAX)
    return opened.ok ? openPullOf(opened.value, remote) : strange(remote)
  }

  /** The first page says how many there are; then the newest come first, for what is looked for is mostly new. */
  async hasComment(remote: string, number: number, text: string): Promise<Answer<boolean>> {
    const first = await this.#comments(remote, number, 1)
    if (!first.ok) return first
    if (holds(first.value.comments, text)) return yes(true)
    const { pages } = first.value
    const oldest = Math.max(2, pages - COMMENT_PAGES_MAX + 1)
    for (let page = pages; page >= oldest; page--) {
      const read: Answer<CommentPage> = await this.#comments(remote, number, page)
      if (!read.ok) return read
      if (holds(read.value.comments, text)) return yes(true)
    }
    return yes(false)
  }

  async comment(remote: string, number: number, body: string): Promise<Answer<void>> {
    const path = `issues/${number}/comments`
    const reply = await this.#ask('POST', remote, path, JSON.stringify({ body }))
    if (!reply.ok) return reply
    return reply.value.status === 201 ? yes(undefined) : refusalFor(reply.value, remote)
  }

  async #comments(remote: string, number: number, page: number): Promise<Answer<CommentPage>> {
    const query = `per_page=${COMMENTS_PER_PAGE}&page=${page}`
    const reply = await this.#ask('GET', remote, `issues/${number}/comments?${query}`)
    if (!reply.ok) return reply
    if (reply.value.status !== 200) return refusalFor(reply.value, remote)
    const listed = parseJson(reply.value.text, KEYS_MAX)
    if (!listed.ok || !Array.isArray(listed.value)) return strange(remote)
    return yes({ comments: listed.value, pages: lastPage(reply.value.headers.link) })
  }

  async #ask(
    method: HttpRequest['method'],
    remote: string,
    path: string,
    body?: string,
  ): Promise<Answer<HttpReply>> {
    if (!isRemote(remote)) return no('invalid', `${printable(remote)} is no repository as owner/name`)
    return this.#http.ask({
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

function isOf(pull: unknown, remote: string, head: string, base: string): boolean {
  const from = fieldOf(pull, 'head', 'repo', 'full_name')
  return (
    fieldOf(pull, 'head', 'ref') === head &&
    fieldOf(pull, 'base', 'ref') === base &&
    typeof from === 'string' &&
    isSameRepository(from, pull, remote)
  )
}

/** A renamed repository answers with its new name, on both sides; a fork's differs from the base's. */
function isSameRepository(from: string, pull: unknown, remote: string): boolean {
  const into = fieldOf(pull, 'base', 'repo', 'full_name')
  return from.toLowerCase() === (typeof into === 'string' ? into : remote).toLowerCase()
}

function openPullOf(pull: unknown, remote: string): Answer<OpenPull> {
  const [number, url, draft] = ['number', 'html_url', 'draft'].map((name) => fieldOf(pull, name))
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < 1) return strange(remote)
  if (typeof url !== 'string' || !LINK.test(url)) return strange(remote)
  return yes({ number, url, state: draft === true ? 'draft' : 'open' })
}

// ---- comments ------------------------------------------------------------------------------------------------------

function holds(comments: readonly unknown[], text: string): boolean {
  return comments.some((comment) => {
    const body = fieldOf(comment, 'body')
    return typeof body === 'string' && body.includes(text)
  })
}

/** Only the number is taken from it: where the token goes is not for an answer to say. */
const lastPage = (link: string | undefined): number => Number(LAST_PAGE.exec(link ?? '')?.[1] ?? 1)

// ---- refusals --------------------------------------------------------------------------------------------------------

/** Besides an outage, what may be otherwise when it is asked again later: it took too long, or two met. */
const PASSING = new Set([408, 409])

function refusalFor(reply: HttpReply, remote: string) {
  const { status } = reply
  const said = messageOf(reply)
  if (status === 401)
    return no('unauthorized', 'GitHub refused the token; connect GitHub again, or set codehost.token')
  if (isTooOften(reply))
    return no('unavailable', `GitHub wants fewer requests just now: ${said}; try again later`)
  if (status === 403) {
    return no(
      'forbidden',
      `GitHub does not allow this in ${remote}: ${said}; the token needs write access to pull requests`,
    )
  }
  if (status === 404) {
    return no(
      'unknown',
      `GitHub has no repository ${remote}, or the token may not see it; correct remote, or give it access`,
    )
  }
  if (status === 422 && /already exists/i.test(said)) return no('conflict', `GitHub says: ${said}`)
  const kind: RefusalKind = status >= 500 || PASSING.has(status) ? 'failed' : 'invalid'
  return no(kind, `GitHub answered ${status} for ${remote}: ${said}`)
}

function strange(remote: string) {
  return no('failed', `GitHub answered something else than a pull request of ${remote}`)
}
