/** Addresses of jobs in the whole system: a worker uses only what it was started with; the reason of a held run is the cure. */
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { EXIT } from '../../bin/process/exit.ts'
import { runCommand } from '../support/command-process.ts'
import { createRepository, git } from '../support/git.ts'
import { LocalSystem } from '../support/local-system.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { closeAfterTest } from '../support/test-resources.ts'
import { until } from '../support/until.ts'

const GIT_MS_MAX = 90_000
const WORK = ['run echo more > more', 'commit Add more']

/** A repository outside the code host's folder, with a hook that leaves a mark. */
function createOutsideRepository(): {
  readonly folder: string
  readonly path: string
  readonly mark: string
} {
  const folder = tempFolder()
  const [path, draft, mark] = [join(folder, 'outside.git'), join(folder, 'draft'), join(folder, 'mark')]
  createRepository(draft, { Begin: { 'README.md': '# outside\n' } })
  git(draft, 'clone', '--quiet', '--bare', draft, path)
  for (const hook of ['pre-receive', 'reference-transaction'])
    writeFileSync(join(path, 'hooks', hook), `#!/bin/sh\ntouch ${mark}\n`, { mode: 0o755 })
  git(path, 'config', 'core.alternateRefsCommand', `touch ${mark}; true`)
  return { folder, path, mark }
}

/** The run is not failed: it waits in the queue, and the reason names the option. */
const waitForCure = (system: LocalSystem, identifier: string, option: string) =>
  system.waitForRun(
    identifier,
    `held until ${option} is given`,
    ({ status, queueReason = '' }) => status === 'queued' && queueReason.includes(option),
  )

test('a worker that was started with no folder refuses the repositories of its machine', async () => {
  const system = await LocalSystem.open({ reach: [] })
  await system.pairWorker()
  system.writeTicket('ADR-1', WORK)
  await waitForCure(system, 'ADR-1', '--local-repos')
}, 120_000)

test('the host’s own worker uses a clone URL outside the code host only when the host was told, and runs no hook of it', async () => {
  const { folder, path, mark } = createOutsideRepository()
  const repos = {
    outside: { remote: 'acme/outside', cloneUrl: path },
    loopback: { remote: 'acme/loopback', cloneUrl: 'http://127.0.0.1:9/acme/loopback.git' },
  }
  const refusing = await LocalSystem.open({ local: true, repos })
  refusing.writeTicket('ADR-2', WORK, { repo: 'outside' })
  refusing.writeTicket('ADR-3', WORK, { repo: 'loopback' })
  await waitForCure(refusing, 'ADR-2', '--local-repos')
  await waitForCure(refusing, 'ADR-3', '--private-code-host')

  const allowing = await LocalSystem.open({ local: true, repos, hostArgs: ['--local-repos', folder] })
  allowing.writeTicket('ADR-4', WORK, { repo: 'outside' })
  expect(await allowing.waitForEnd('ADR-4')).toMatchObject({ status: 'completed' })
  const branches = git(path, 'for-each-ref', '--format=%(refname)', 'refs/heads')
  expect(branches.split('\n')).toHaveLength(2)
  expect(existsSync(mark)).toBe(false)
}, 240_000)

test('the host’s own worker contacts a private code host that the host was told', async () => {
  const asked: (string | undefined)[] = []
  const codeHost = createServer(({ url }, response) => {
    asked.push(url)
    response.writeHead(404).end()
  }).listen(0, '127.0.0.1')
  closeAfterTest(() => codeHost.close())
  await once(codeHost, 'listening')
  const name = `127.0.0.1:${(codeHost.address() as AddressInfo).port}`
  const repos = { private: { remote: 'acme/private', cloneUrl: `http://${name}/acme/private.git` } }
  const system = await LocalSystem.open({ local: true, repos, hostArgs: ['--private-code-host', name] })
  system.writeTicket('ADR-5', WORK, { repo: 'private' })
  await until('git asks the code host', () => asked.length > 0, GIT_MS_MAX)
  expect(asked[0]).toMatch(/^\/acme\/private\.git\/info\/refs/)
}, 120_000)

test.each([
  ['worker', '--local-repos', 'relative/folder'],
  ['worker', '--private-code-host', 'https://git.corp.example'],
  ['serve', '--local-repos', 'relative/folder'],
  ['serve', '--private-code-host', 'git.corp.example:0'],
])('%s refuses %s %s as wrong usage', async (...args) => {
  expect(await runCommand(args).exit).toBe(EXIT.usage)
})
