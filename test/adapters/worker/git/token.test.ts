/** The token of a code host over http: the code host receives it, and no other process or file contains it. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { afterEach, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import type { CodeHost } from '../../../../core/ports/code-host.ts'
import type { Job } from '../../../../protocol/frames.ts'
import { createCodeHost } from '../../../../providers/codehost/registry.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import { RemotePolicy } from '../../../../worker/git/remote-policy.ts'
import { createSkippingClock } from '../../../support/skipping-clock.ts'
import { until } from '../../../support/until.ts'
import { aJob, createGitFixture, type GitFixture, git, got, never, refusalOf } from './git-fixture.ts'
import { type GitServer, gitServer } from './git-server.ts'

const TOKEN = 'ghp_S3cretOfAda+/x=='
const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

interface Site {
  readonly g: GitFixture
  readonly server: GitServer
  readonly codehost: CodeHost
}

type Before = (request: IncomingMessage, response: ServerResponse) => Promise<boolean> | boolean

async function site(
  { token = TOKEN, before }: { token?: string; before?: Before } = {},
  clock: typeof realClock = realClock,
): Promise<Site> {
  let codehost: CodeHost | undefined
  let policy = new RemotePolicy()
  const lent = { gitAddress: (remote: string) => codehost?.gitAddress(remote) ?? '' }
  const g = createGitFixture({
    clock,
    codehostFor: () => ({ ok: true, value: { ...(codehost as CodeHost), ...lent } }),
    policy: { check: (address) => policy.check(address) },
  })
  const server = await gitServer({
    folder: join(g.folder, 'codehost'),
    token: TOKEN,
    ...(before === undefined ? {} : { before }),
  })
  const { port } = new URL(server.origin)
  policy = new RemotePolicy({ privateHosts: [`127.0.0.1:${port}`, `localhost:${port}`] })
  const http = createHttp({ clock: realClock, random: realRandom })
  open.push(server, http)
  codehost = got(
    createCodeHost({ driver: 'github', apiUrl: server.origin }, token, { http, clock: realClock }),
  )
  return { g, server, codehost }
}

const withToken = (token = TOKEN, cloneUrl?: string) =>
  aJob({
    credentials: { codehost: token },
    repo: { ...aJob().repo, ...(cloneUrl === undefined ? {} : { cloneUrl }) },
  })

const forms = [TOKEN, encodeURIComponent(TOKEN), Buffer.from(`x-access-token:${TOKEN}`).toString('base64')]
const holds = (text: string) => forms.some((form) => text.includes(form))

/** Arguments and environment of all processes. The test process knows the token, but does not expose it. */
function shown(): string[] {
  const read = (path: string) => {
    try {
      return readFileSync(path, 'latin1')
    } catch {
      return ''
    }
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => [read(`/proc/${pid}/cmdline`), read(`/proc/${pid}/environ`)])
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
}

test('it fetches, pushes and opens the pull request, and is in no argument, environment or file', async () => {
  let scans = 0
  const found: string[] = []
  const { g, server, codehost } = await site({
    before: (request) => {
      if (request.headers.authorization !== undefined) {
        scans += 1
        const texts = shown()
        expect(texts.some((text) => text.includes('remote-http') || request.url?.startsWith('/repos/'))).toBe(
          true,
        )
        found.push(...texts.filter(holds))
      }
      return false
    },
  })
  const run = g.run()
  const job = withToken()
  const from = got(await g.sources.checkOut(job, run.folders, run.sandbox, never))
  expect(await run.sh('git config remote.origin.url; echo work > work')).toBe(
    `${server.origin}/ada/lamps.git`,
  )
  const work = got(await g.sources.collect(job, run.folders, run.sandbox, from))
  const order = { job, leaseId: 'ls-1', folders: run.folders, from, collected: work, summary: 'Done.' }
  const published = got(await g.sources.publish(order, codehost, () => true, never))
  expect(published).toMatchObject({ prUrl: 'https://code.example/ada/lamps/pull/1', adopted: false })
  expect(git(g.remote, 'rev-parse', job.branch)).toBe(work.head)
  expect(got(await g.sources.publish(order, codehost, () => true, never)).adopted).toBe(true)
  expect(scans).toBeGreaterThan(4)
  expect(found).toEqual([])
  const files = filesBelow(g.folder)
  expect(files.length).toBeGreaterThan(20)
  expect(files.filter((path) => holds(readFileSync(path, 'latin1')))).toEqual([])
})

test('a wrong token is refused and never quoted', async () => {
  const { g } = await site()
  const run = g.run()
  const message = refusalOf(
    await g.sources.checkOut(withToken('wrong-token-1'), run.folders, run.sandbox, never),
  )
  expect(message).toMatch(
    /^unauthorized: credential of github is refused: the code host refused the token; connect/,
  )
  expect(message).not.toContain('wrong-token-1')
})

test('the token in a response of the code host is redacted', async () => {
  const { g } = await site({
    before: (request, response) => {
      if (request.headers.authorization === undefined) return false
      response
        .writeHead(403, { 'content-type': 'text/plain' })
        .end(`you sent ${TOKEN} as ${request.headers.authorization}\n`)
      return true
    },
  })
  const run = g.run()
  const message = refusalOf(await g.sources.checkOut(withToken(), run.folders, run.sandbox, never))
  expect(message).toMatch(/^forbidden: .*you sent \*\*\* as Basic \*\*\*/)
  expect(holds(message)).toBe(false)
})

test('a fork without push access is refused before any work is done', async () => {
  const { g } = await site({
    before: (request, response) => {
      const isRefused = /^\/bo\/lamps\.git\/.*receive-pack/.test(request.url ?? '')
      if (isRefused) response.writeHead(403).end('Write access to repository not granted.')
      return isRefused
    },
  })
  mkdirSync(join(g.folder, 'codehost/bo'))
  const fork = join(g.folder, 'codehost/bo/lamps.git')
  git(g.folder, 'clone', '-q', '--bare', g.remote, fork)
  git(fork, 'update-ref', 'refs/heads/mend', 'main')
  const pull = {
    number: 1,
    url: 'https://code.example/1',
    headBranch: 'mend',
    headRemote: 'bo/lamps',
    baseBranch: 'main',
    threads: [],
    reviews: [],
    comments: [],
  }
  const job = { ...withToken(), kind: 'follow-up' as const, followUp: { id: 'fu-1', number: 1 }, pull }
  const run = g.run()
  const order = { job, folders: run.folders, sandbox: run.sandbox, isRetained: false }
  expect(refusalOf(await g.sources.followUps.begin(order, never))).toMatch(
    /^forbidden: bo\/lamps is a fork .* allow edits by maintainers/,
  )
})

const isPush = (request: IncomingMessage): boolean => /receive-pack/.test(request.url ?? '')
const refusePush = (response: ServerResponse): void =>
  void response.writeHead(403).end('Write access to repository not granted.')

test('a token that may not push is refused before any work is done', async () => {
  const { g } = await site({
    before: (request, response) => {
      if (isPush(request)) refusePush(response)
      return isPush(request)
    },
  })
  const run = g.run()
  const checked = await g.sources.checkOut(withToken(), run.folders, run.sandbox, never)
  expect(refusalOf(checked)).toMatch(
    /^forbidden: credential of github is refused: pushing .* give it read and write access to its contents/,
  )
  expect(checked).toMatchObject({ refusal: { failure: 'credentials' } })
})

test.each([
  ['the token lost its right to push', isPush, /^forbidden: credential of github is refused: pushing /],
  [
    'the token may not open pull requests',
    ({ method, url }: IncomingMessage) => method === 'POST' && url?.startsWith('/repos/') === true,
    /^forbidden: credential of github is refused: GitHub does not allow this/,
  ],
])('publishing fails of the credential when %s', async (_, refuses, reason) => {
  let isRefusing = false
  const { g, codehost } = await site({
    before: (request, response) => {
      const isRefused = isRefusing && refuses(request)
      if (isRefused) refusePush(response)
      return isRefused
    },
  })
  const run = g.run()
  const job: Job = { ...withToken(), codehost: { driver: 'github' } }
  const from = got(await g.sources.checkOut(job, run.folders, run.sandbox, never))
  await run.sh('echo work > work')
  const work = got(await g.sources.collect(job, run.folders, run.sandbox, from))
  isRefusing = true
  const order = { job, leaseId: 'ls-1', folders: run.folders, from, collected: work, summary: 'Done.' }
  const published = await g.sources.publish(order, codehost, () => true, never)
  expect(refusalOf(published)).toMatch(reason)
  expect(published).toMatchObject({ refusal: { failure: 'credentials' } })
})

test('a refusal by a hook of the code host is reported', async () => {
  const { g, codehost } = await site()
  writeFileSync(join(g.remote, 'hooks/pre-receive'), '#!/bin/sh\necho "no pushes on Sundays" >&2\nexit 1\n', {
    mode: 0o755,
  })
  const run = g.run()
  const job = withToken()
  const from = got(await g.sources.checkOut(job, run.folders, run.sandbox, never))
  await run.sh('echo work > work')
  const work = got(await g.sources.collect(job, run.folders, run.sandbox, from))
  const order = { job, leaseId: 'ls-1', folders: run.folders, from, collected: work, summary: 'Done.' }
  expect(refusalOf(await g.sources.publish(order, codehost, () => true, never))).toMatch(
    /^forbidden: .*hook of the code host refused.*no pushes on Sundays/,
  )
})

test('a redirect is not followed, and the refusal says what to correct', async () => {
  const otherSite = await site()
  const { g } = await site({
    before: (request, response) => {
      if (request.url?.includes('.git') !== true) return false
      response.writeHead(302, { location: `${otherSite.server.origin}${request.url}` }).end()
      return true
    },
  })
  const run = g.run()
  expect(refusalOf(await g.sources.checkOut(withToken(), run.folders, run.sandbox, never))).toMatch(
    /^invalid: .*set remote or cloneUrl to the repository’s present address/,
  )
  expect(otherSite.server.seen).toEqual([])
})

test('addresses that a repository names get no request: submodules, LFS, and those of its settings', async () => {
  const otherSite = await site()
  const { g, server, codehost } = await site()
  const away = `${otherSite.server.origin}/ada/lamps.git`
  const files: Readonly<Record<string, string>> = {
    '.gitmodules': `[submodule "sub"]\n\tpath = sub\n\turl = ${away}\n\tupdate = checkout\n`,
    '.lfsconfig': `[lfs]\n\turl = ${away}/info/lfs\n\tlocksverify = true\n`,
    '.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n',
    'a.bin': `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 4\n`,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(g.person, name), text)
  git(g.person, 'add', '-A')
  const commit = git(g.person, 'rev-parse', 'HEAD')
  git(g.person, 'update-index', '--add', '--cacheinfo', `160000,${commit},sub`)
  git(g.person, 'commit', '-q', '-m', 'Links')
  git(g.person, 'push', '-q', 'origin', 'main')
  const run = g.run()
  const job = withToken()
  const from = got(await g.sources.checkOut(job, run.folders, run.sandbox, never))
  await run.sh(`git config url.${otherSite.server.origin}/.insteadOf ${server.origin}/
    git config remote.origin.pushurl ${away}; git config remote.origin.proxy ${otherSite.server.origin}
    git config lfs.url ${away}; git config push.recurseSubmodules on-demand; echo work > work`)
  const work = got(await g.sources.collect(job, run.folders, run.sandbox, from))
  const order = { job, leaseId: 'ls-1', folders: run.folders, from, collected: work, summary: 'Done.' }
  got(await g.sources.publish(order, codehost, () => true, never))
  expect(git(g.remote, 'rev-parse', job.branch)).toBe(work.head)
  expect(otherSite.server.seen).toEqual([])
})

test('a server that keeps its objects elsewhere gets no request there', async () => {
  const otherSite = await site()
  let asked = 0
  const { g } = await site({
    before: ({ url = '', headers }, response) => {
      if (headers.authorization === undefined || !url.startsWith('/ada/lamps.git/')) return false
      const path = new URL(url, 'http://x').pathname.slice('/ada/lamps.git/'.length)
      const isAlternates = path === 'objects/info/http-alternates'
      if (isAlternates) asked += 1
      if (isAlternates) response.end(`${otherSite.server.origin}/ada/lamps.git/objects\n`)
      else if (/^(info\/refs|HEAD|objects\/info\/packs)$/.test(path)) response.end(dumbFile(g, path))
      else response.writeHead(404).end()
      return true
    },
  })
  const run = g.run()
  const checked = await g.sources.checkOut(withToken(), run.folders, run.sandbox, never)
  expect(checked.ok).toBe(false)
  expect(asked).toBeGreaterThan(0)
  expect(otherSite.server.seen).toEqual([])
})

/** A file of the old protocol, for which a server runs no program. */
function dumbFile({ remote }: GitFixture, path: string): string {
  git(remote, 'update-server-info')
  return path === 'objects/info/packs' ? '' : readFileSync(join(remote, path), 'utf8')
}

test('a clone URL on another host is used without the token', async () => {
  const { g, server } = await site()
  const run = g.run()
  const elsewhere = `${server.origin.replace('127.0.0.1', 'localhost')}/ada/lamps.git`
  expect(
    refusalOf(await g.sources.checkOut(withToken(TOKEN, elsewhere), run.folders, run.sandbox, never)),
  ).toMatch(/^unauthorized/)
  expect(server.seen.map(({ authorization }) => authorization)).toEqual([undefined])
})

test('an aborted fetch leaves no process behind', async () => {
  let waiting = false
  const { g, server } = await site({
    before: () => {
      waiting = true
      return new Promise<boolean>(() => {})
    },
  })
  const run = g.run()
  const stop = new AbortController()
  const fetched = g.sources.checkOut(withToken(), run.folders, run.sandbox, stop.signal)
  await until('the fetch is under way', () => waiting)
  expect(shown().some((text) => text.includes(server.origin))).toBe(true)
  stop.abort()
  expect(refusalOf(await fetched)).toMatch(/^conflict: git fetch was stopped/)
  await until('no git process is left', () => !shown().some((text) => text.includes(server.origin)))
})

test('an unreachable code host is retried for minutes, which the log says', async () => {
  let asked = 0
  const { g } = await site(
    {
      before: (_, response) => {
        asked += 1
        response.writeHead(503).end()
        return true
      },
    },
    createSkippingClock(),
  )
  const run = g.run()
  const lines: string[] = []
  const logToRun = (line: string) => void lines.push(line)
  const answer = await g.sources.checkOut(withToken(), run.folders, run.sandbox, never, logToRun)
  expect(refusalOf(answer)).toMatch(
    /^failed: ada\/lamps can't be read: the code host could not be reached.* \(tried for \d minutes\)$/,
  )
  expect(asked).toBeGreaterThan(3)
  expect(lines).toEqual([
    expect.stringMatching(
      /^fetching ada\/lamps: the code host could not be reached.*; trying again for up to/,
    ),
  ])
})
