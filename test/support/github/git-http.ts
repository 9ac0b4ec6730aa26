/** Serves repositories over git's HTTP protocol through git's own backend, for holders of a token. */
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { GIT_ENVIRONMENT } from './plumbing.ts'
import { fullNameOf, type Repo } from './records.ts'
import type { GithubViewer, GithubWorld } from './world.ts'

const HEAD_BYTES_MAX = 64 * 1024

/** Parses `/owner/name(.git)/service`; undefined for other paths. */
export function gitAddress(path: string): { fullName: string; service: string } | undefined {
  const pattern = /^\/([^/]+\/[^/]+?)(?:\.git)?\/(info\/refs|git-upload-pack|git-receive-pack)$/
  const [, fullName, service] = pattern.exec(path) ?? []
  return fullName === undefined || service === undefined ? undefined : { fullName, service }
}

export class GitHttp {
  readonly #world: GithubWorld
  readonly #pushed: (repo: Repo) => Promise<void>
  readonly #hooks: string

  /** @param pushed resolves before the pusher receives the reply to its push */
  constructor(world: GithubWorld, folder: string, pushed: (repo: Repo) => Promise<void>) {
    this.#world = world
    this.#pushed = pushed
    this.#hooks = join(folder, 'refusing-hooks')
    mkdirSync(this.#hooks, { recursive: true })
    const script = '#!/bin/sh\necho "$FAKE_GITHUB_REFUSAL" >&2\nexit 1\n'
    writeFileSync(join(this.#hooks, 'pre-receive'), script, { mode: 0o755 })
  }

  answer(
    request: IncomingMessage,
    response: ServerResponse,
    url: URL,
    address: { readonly fullName: string; readonly service: string },
  ): void {
    const token = passwordOf(request.headers.authorization)
    const viewer = token === undefined ? undefined : this.#world.viewerOf(token)
    const repo = this.#found(address.fullName)
    const writes = `${url.searchParams.get('service')}${address.service}`.includes('git-receive-pack')
    const readable = repo !== undefined && this.#world.may(viewer, repo, 'pull')
    const moved = readable && fullNameOf(repo).toLowerCase() !== address.fullName.toLowerCase()
    if (token !== undefined && viewer === undefined) unauthorized(response)
    else if (viewer === undefined && (writes || !readable)) unauthorized(response)
    else if (!readable) plain(response, 404, 'Repository not found.')
    else if (moved && viewer === undefined)
      redirect(response, `/${fullNameOf(repo)}.git/${address.service}${url.search}`)
    else if (writes && !this.#mayPush(viewer, repo))
      plain(response, 403, 'Write access to repository not granted.')
    else this.#serve(request, response, url, { repo, service: address.service, viewer })
  }

  /** Accepts old names too: git follows no redirect after authentication. */
  #found(fullName: string): Repo | undefined {
    return this.#world.repo(fullName) ?? this.#world.renamed.get(fullName.toLowerCase())
  }

  #mayPush(viewer: GithubViewer | undefined, repo: Repo): boolean {
    return !repo.archived && (this.#world.may(viewer, repo, 'push') || this.#maintains(viewer, repo))
  }

  /** A maintainer of the target may push to the fork of a pull request, if its author allows it. */
  #maintains(viewer: GithubViewer | undefined, fork: Repo): boolean {
    return [...this.#world.everyIssue()].some(
      ({ pull, repo, state }) =>
        pull?.headRepo === fork &&
        pull.maintainerCanModify &&
        state === 'open' &&
        this.#world.may(viewer, repo, 'push'),
    )
  }

  #serve(request: IncomingMessage, response: ServerResponse, url: URL, asked: GitHttpRequest): void {
    const child = spawn('git', ['http-backend'], { env: this.#environment(request, url, asked) })
    request.pipe(child.stdin)
    child.stdin.on('error', () => {})
    response.on('close', () => child.kill())
    let head: Buffer | undefined = Buffer.alloc(0)
    const rest: Buffer[] = []
    child.stdout.on('data', (part: Buffer) => {
      if (head === undefined) return void this.#pass(asked, response, rest, part)
      head = Buffer.concat([head, part])
      const end = head.indexOf('\r\n\r\n')
      if (end < 0) return head.length > HEAD_BYTES_MAX ? void child.kill() : undefined
      const body = head.subarray(end + 4)
      response.writeHead(...headOf(head.subarray(0, end).toString('latin1')))
      head = undefined
      this.#pass(asked, response, rest, body)
    })
    // A push that failed to update its pull requests must not look successful.
    child.on('close', () => {
      this.#finish(asked, response, rest, head !== undefined).catch(() => response.destroy())
    })
  }

  /** The reply to a push waits until the pull requests are updated. */
  #pass({ service }: GitHttpRequest, response: ServerResponse, rest: Buffer[], part: Buffer): void {
    if (service === 'git-receive-pack') rest.push(part)
    else response.write(part)
  }

  async #finish(
    { service, repo }: GitHttpRequest,
    response: ServerResponse,
    rest: Buffer[],
    headless: boolean,
  ) {
    if (service === 'git-receive-pack') {
      repo.pushedMs = this.#world.now()
      await this.#pushed(repo)
    }
    if (headless && !response.headersSent) response.writeHead(500)
    response.end(Buffer.concat(rest))
  }

  #environment(
    request: IncomingMessage,
    url: URL,
    { repo, service, viewer }: GitHttpRequest,
  ): NodeJS.ProcessEnv {
    return {
      ...GIT_ENVIRONMENT,
      GIT_PROJECT_ROOT: repo.path,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: `/${service}`,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method ?? 'GET',
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      CONTENT_LENGTH: request.headers['content-length'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      REMOTE_USER: viewer?.person.login ?? '',
      REMOTE_ADDR: '127.0.0.1',
      ...this.#refusal(repo),
    }
  }

  #refusal({ rejectPushes }: Repo): Record<string, string> {
    if (rejectPushes === undefined) return {}
    return {
      FAKE_GITHUB_REFUSAL: rejectPushes,
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'core.hooksPath',
      GIT_CONFIG_VALUE_0: this.#hooks,
    }
  }
}

interface GitHttpRequest {
  readonly repo: Repo
  readonly service: string
  readonly viewer: GithubViewer | undefined
}

/** Accepts any user name. */
function passwordOf(authorization: string | undefined): string | undefined {
  const [, coded] = /^basic +(.+)$/i.exec(authorization ?? '') ?? []
  if (coded === undefined) return undefined
  const text = Buffer.from(coded, 'base64').toString('utf8')
  return text.slice(text.indexOf(':') + 1)
}

function headOf(head: string): [number, Record<string, string>] {
  const lines = head.split('\r\n').map((line): [string, string] => {
    const at = line.indexOf(':')
    return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()]
  })
  const { status, ...headers } = Object.fromEntries(lines)
  return [Number.parseInt(status ?? '200', 10), headers]
}

function unauthorized(response: ServerResponse): void {
  response.setHeader('www-authenticate', 'Basic realm="GitHub"')
  plain(response, 401, 'Invalid username or token.')
}

function redirect(response: ServerResponse, location: string): void {
  response.setHeader('location', location)
  plain(response, 301, '')
}

function plain(response: ServerResponse, status: number, text: string): void {
  response
    .writeHead(status, { 'content-type': 'text/plain; charset=utf-8' })
    .end(text === '' ? '' : `${text}\n`)
}
