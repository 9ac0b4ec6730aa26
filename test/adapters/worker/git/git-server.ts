/** A code host on loopback: git over http with a password, and a small part of GitHub's pull request API. */
import { spawn } from 'node:child_process'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createGunzip } from 'node:zlib'

export interface GitServer {
  readonly origin: string
  /** Method, path and credential of each request. */
  readonly seen: { readonly line: string; readonly authorization: string | undefined }[]
  readonly pulls: Record<string, unknown>[]
  close(): Promise<void>
}

export interface GitServerParts {
  /** Holds owner/name.git. */
  readonly folder: string
  readonly token: string
  /** Called before a request is served; true when it has been answered. */
  readonly before?: (request: IncomingMessage, response: ServerResponse) => Promise<boolean> | boolean
}

export async function gitServer(parts: GitServerParts): Promise<GitServer> {
  const seen: GitServer['seen'] = []
  const pulls: GitServer['pulls'] = []
  const server = createServer((request, response) => {
    seen.push({ line: `${request.method} ${request.url}`, authorization: request.headers.authorization })
    void serve(parts, pulls, request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${port}`,
    seen,
    pulls,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function serve(
  parts: GitServerParts,
  pulls: GitServer['pulls'],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if ((await parts.before?.(request, response)) === true) return
  const { authorization = '' } = request.headers
  const basic = `basic ${Buffer.from(`x-access-token:${parts.token}`).toString('base64')}`
  const isKnown =
    authorization === `Bearer ${parts.token}` ||
    (/^basic /i.test(authorization) && `basic ${authorization.slice(6)}` === basic)
  if (!isKnown) {
    response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end(`no: ${authorization}`)
    return
  }
  if (request.url?.startsWith('/repos/') === true) await api(pulls, request, response)
  else backend(parts.folder, request, response)
}

async function api(pulls: GitServer['pulls'], request: IncomingMessage, response: ServerResponse) {
  const url = new URL(request.url ?? '', 'http://x')
  const remote = url.pathname.split('/').slice(2, 4).join('/')
  const answer = (status: number, value: unknown) =>
    response
      .writeHead(status, { 'content-type': 'application/json; charset=utf-8' })
      .end(JSON.stringify(value))
  if (request.method === 'GET') {
    const head = url.searchParams.get('head')
    return answer(
      200,
      pulls.filter((pull) => `${remote.split('/')[0]}:${pull.branch}` === head),
    )
  }
  let text = ''
  for await (const part of request) text += part
  const order = JSON.parse(text)
  if (pulls.some((pull) => pull.branch === order.head)) {
    const message = `A pull request already exists for ${order.head}.`
    return answer(422, {
      message: 'Validation Failed',
      errors: [{ resource: 'PullRequest', code: 'custom', message }],
    })
  }
  const number = pulls.length + 1
  const repo = { full_name: remote }
  const pull = {
    ...order,
    branch: order.head,
    number,
    html_url: `https://code.example/${remote}/pull/${number}`,
    head: { ref: order.head, repo },
    base: { ref: order.base, repo },
  }
  pulls.push(pull)
  return answer(201, pull)
}

function backend(folder: string, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '', 'http://x')
  const child = spawn('git', ['-c', 'http.receivepack=true', 'http-backend'], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: folder,
      GIT_HTTP_EXPORT_ALL: '1',
      GIT_CONFIG_NOSYSTEM: '1',
      REQUEST_METHOD: request.method,
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      REMOTE_USER: 'somebody',
      REMOTE_ADDR: '127.0.0.1',
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const body = request.headers['content-encoding'] === 'gzip' ? request.pipe(createGunzip()) : request
  body.pipe(child.stdin.on('error', () => {}))
  let head = Buffer.alloc(0)
  child.stdout.on('data', (part: Buffer) => {
    if (response.headersSent) return void response.write(part)
    head = Buffer.concat([head, part])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    const headers = Object.fromEntries(
      head
        .toString('latin1', 0, end)
        .split('\r\n')
        .map((line) => [line.split(': ')[0], line.slice(line.indexOf(': ') + 2)]),
    )
    const { Status: status = '200', ...rest } = headers
    response.writeHead(Number.parseInt(status, 10), rest)
    response.write(head.subarray(end + 4))
  })
  child.on('close', () => response.end())
}
