/** Git outside the sandbox: its environment, its limits, and its end. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import { openWorkerStore } from '../../../../store/worker-store.ts'
import { createGit, type GitCall } from '../../../../worker/git/git.ts'
import { explainFailure } from '../../../../worker/git/git-errors.ts'
import { RemotePolicy } from '../../../../worker/git/remote-policy.ts'
import { isSameOrigin, passwordPromptFor, withoutUser } from '../../../../worker/git/resolve-remote.ts'
import { stepMemoryMib } from '../../../../worker/git/work/work-bounds.ts'
import { listInheritableFds } from '../../../../worker/sandbox/descriptors.ts'
import { createRecordingLog, noMeters } from '../../../support/recording-log.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { until } from '../../../support/until.ts'
import { got, refusalOf } from './git-fixture.ts'

const folder = tempFolder()
const git = createGit({ folder, clock: realClock })

/** A git alias lets a test run a shell command inside git's environment. */
const run = (command: string, more: Partial<GitCall> = {}) =>
  git.run({ args: ['-c', `alias.x=!${command}`, 'x'], timeoutMs: 20_000, ...more })

describe('git’s environment', () => {
  test('contains only the given variables and none of the worker’s', async () => {
    process.env.SWITCHYARD_TEST_SECRET = 'from the worker'
    const { output } = got(await run('env'))
    expect(output).not.toContain('from the worker')
    expect(output).toContain('GIT_ALLOW_PROTOCOL=none')
    expect(output).toContain('GIT_CONFIG_NOSYSTEM=1')
    expect(output).not.toMatch(/SSH_AUTH_SOCK|SWITCHYARD/)
  })

  test('excludes user and system configuration, and hooks', async () => {
    mkdirSync(join(folder, '.config/git'), { recursive: true })
    for (const name of ['.gitconfig', '.config/git/config'])
      writeFileSync(join(folder, name), '[user]\n\tname = planted\n')
    const { output } = got(await git.run({ args: ['config', '--show-origin', '--list'], timeoutMs: 20_000 }))
    expect(output).not.toContain('planted')
    expect(output.split('\n').filter((line) => line !== '' && !line.startsWith('command line:'))).toEqual([])
    expect(output).toContain('core.hookspath=/dev/null')
  })

  test('limits memory for untrusted objects', async () => {
    const kib = String(stepMemoryMib() * 1024)
    expect(got(await run('ulimit -v', { isUntrusted: true })).output.trim()).toBe(kib)
    expect(got(await run('ulimit -v')).output.trim()).not.toBe(kib)
  })

  test('has no open descriptor of the worker’s database', async () => {
    const dataDir = tempFolder()
    const store = await openWorkerStore({
      dataDir,
      clock: realClock,
      random: realRandom,
      log: createRecordingLog(),
      meters: noMeters,
      emergencySpaceBytes: 64 * 1024,
    })
    try {
      expect(listInheritableFds()).not.toEqual([])
      const { output } = got(await run('for fd in /proc/self/fd/*; do readlink "$fd"; done'))
      expect(output).toContain('socket:')
      expect(output).not.toContain(dataDir)
    } finally {
      await store.close()
    }
  })

  test('has an ssh agent for ssh addresses only', async () => {
    const policy = new RemotePolicy({ privateHosts: ['code.example'] })
    const own = createGit({ folder, clock: realClock, sshAgent: '/run/agent.sock', policy })
    const env = async (address: string) =>
      got(await own.run({ args: ['-c', 'alias.x=!env', 'x'], remote: { address }, timeoutMs: 20_000 })).output
    expect(await env('git@code.example:ada/lamps.git')).toMatch(/SSH_AUTH_SOCK=\/run\/agent\.sock/)
    expect(await env('https://code.example/ada/lamps.git')).not.toMatch(/SSH_AUTH_SOCK/)
    expect(await env('git@code.example:ada/lamps.git')).toMatch(/GIT_ALLOW_PROTOCOL=ssh\n/)
  })
})

/** A host that drops packets: its process stands still, and its queue of new connections is full. */
async function openSilentHost(): Promise<{ port: number; stop: () => void }> {
  const listen = `const s = require('node:net').createServer(() => {}); s.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => console.log(s.address().port))`
  const child = spawn(process.execPath, ['-e', listen], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(child.stdout, 'data')
  const port = Number(String(line))
  child.kill('SIGSTOP')
  const waiting: Socket[] = []
  const isFull = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect({ port, host: '127.0.0.1', timeout: 300 })
      waiting.push(socket)
      socket.on('connect', () => resolve(false)).on('timeout', () => resolve(true))
      socket.on('error', () => resolve(true))
    })
  await until('the queue is full', isFull)
  return {
    port,
    stop: () => {
      child.kill('SIGKILL')
      for (const socket of waiting) socket.destroy()
    },
  }
}

describe('git ends', () => {
  test('at its timeout, with all its children', async () => {
    const started = Date.now()
    expect(refusalOf(await run('sleep 100 & sleep 100', { timeoutMs: 200 }))).toMatch(
      /^failed: git -c took longer than 0.2 s/,
    )
    expect(Date.now() - started).toBeLessThan(50_000)
  })

  test('soon when the remote answers no connection, which git itself would wait for much longer', async () => {
    const { port, stop } = await openSilentHost()
    try {
      const policy = new RemotePolicy({ privateHosts: [`127.0.0.1:${port}`] })
      const own = createGit({ folder, clock: realClock, policy })
      const address = `http://127.0.0.1:${port}/ada/lamps.git`
      const args = ['ls-remote', address]
      const { code, stderr } = got(await own.run({ args, remote: { address }, timeoutMs: 110_000 }))
      expect([code, explainFailure('reading', stderr).errorKind]).toEqual([128, 'network'])
    } finally {
      stop()
    }
  })

  test('when the signal aborts, also before the start', async () => {
    const stop = new AbortController()
    const slow = run('sleep 100', { signal: stop.signal })
    stop.abort()
    expect(refusalOf(await slow)).toMatch(/^conflict: git -c was stopped/)
    expect(refusalOf(await run('true', { signal: stop.signal }))).toMatch(/^conflict/)
  })

  test('with its background processes, without waiting for them', async () => {
    const { output } = got(await run('sleep 100 & echo $!'))
    const pid = Number(output)
    const isAlive = () => {
      try {
        return process.kill(pid, 0)
      } catch {
        return false
      }
    }
    await until('the background process is gone', () => !isAlive())
  })

  test('after a flood of output, which is truncated', async () => {
    const { output, stderr } = got(await run('yes | head -c 3000000; yes no | head -c 3000000 >&2'))
    expect(output.length).toBe(256 * 1024)
    expect(stderr.length).toBe(16 * 1024)
  })

  test('with a refusal if git is not installed', async () => {
    const none = createGit({ folder, clock: realClock, program: '/nowhere/git' })
    expect(refusalOf(await none.run({ args: ['version'], timeoutMs: 1_000 }))).toMatch(
      /^failed: git could not be started .*; install git/,
    )
  })
})

describe('addresses', () => {
  test('only some addresses may receive a token', () => {
    expect(passwordPromptFor('https://code.example/x')).toBe('https://x-access-token@code.example')
    expect(passwordPromptFor('https://ada@code.example:8443/x')).toBe(
      'https://x-access-token@code.example:8443',
    )
    expect(passwordPromptFor('http://127.0.0.1:99/x')).toBe('http://x-access-token@127.0.0.1:99')
    expect(passwordPromptFor('http://code.example/x')).toBeUndefined()
    expect(passwordPromptFor('http://127.0.0.1.evil.example/x')).toBeUndefined()
    expect(passwordPromptFor('git@code.example:x')).toBeUndefined()
    expect(isSameOrigin('https://code.example:443/a', 'https://CODE.example/b')).toBe(true)
    expect(isSameOrigin('https://ada@code.example/a', 'https://code.example/b')).toBe(true)
    expect(isSameOrigin('https://code.example@evil.example/a', 'https://code.example/b')).toBe(false)
    expect(isSameOrigin('https://code.example./a', 'https://code.example/b')).toBe(false)
    expect(isSameOrigin('https://code.example:8443/a', 'https://code.example/b')).toBe(false)
    expect(isSameOrigin('http://code.example/a', 'https://code.example/b')).toBe(false)
    expect(isSameOrigin('https://code.example.evil/a', 'https://code.example/b')).toBe(false)
    expect(isSameOrigin('/srv/a', '/srv/a')).toBe(false)
    expect(withoutUser('https://ada:x@code.example/a')).toBe('https://code.example/a')
  })
})

test.each([
  ["fatal: Authentication failed for 'https://x/'", 'unauthorized', 'permanent'],
  ["fatal: unable to access 'https://x/': Could not resolve host: x", 'failed', 'network'],
  ["fatal: unable to access 'https://x/': The requested URL returned error: 503", 'failed', 'network'],
  ['remote: Internal Server Error / ! [remote failure] a -> a', 'failed', 'network'],
  ['failure\nremote: fatal error in commit_refs', 'failed', 'network'],
  ['kex_exchange_identification: Connection closed by remote host', 'failed', 'network'],
  [
    "fatal: unable to access 'https://x/': OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to x:443",
    'failed',
    'network',
  ],
  ["fatal: unable to access 'https://x/': SSL connection timeout", 'failed', 'network'],
  ["fatal: unable to access 'https://x/': GnuTLS recv error (-54): Error", 'failed', 'network'],
  ["fatal: unable to access 'https://x/': gnutls_handshake() failed: Error", 'failed', 'network'],
  ["fatal: unable to access 'https://x/': error:0A000126:SSL routines::unexpected eof", 'failed', 'network'],
  [
    "fatal: unable to access 'https://x/': LibreSSL/3.3.6: error:1404B42E:SSL routines:ST_CONNECT",
    'failed',
    'network',
  ],
  ["fatal: repository 'https://x/y.git/' not found", 'unknown', 'permanent'],
  ["fatal: repository 'https://x/rustls/openssl.git/' not found", 'unknown', 'permanent'],
  [
    "deny updating a hidden ref\nerror: failed to push some refs to 'https://x/tls/gnutls-ssl.git'",
    'failed',
    'unknown',
  ],
  ['remote: error: GH006: Protected branch update failed', 'forbidden', 'permanent'],
  ['remote: error: GH001: Large files detected.', 'invalid', 'permanent'],
  [
    'refusing to allow an OAuth App to create or update workflow `.github/x` without `workflow` scope',
    'forbidden',
    'permanent',
  ],
  ['fatal: write error: No space left on device', 'unavailable', 'machine'],
  ["fatal: update_ref failed for ref 'a': couldn't write '/work/.git/refs/a.lock'", 'unavailable', 'machine'],
  ['error: unable to write loose object file: Input/output error', 'unavailable', 'machine'],
  ['fatal: Out of memory, malloc failed (tried to allocate 9 bytes)', 'failed', 'machine'],
  ['error: git-pack-objects died of signal 9\nfatal: possible repository corruption', 'failed', 'machine'],
  ['remote: error: git-pack-objects died of signal 9\nfatal: early EOF', 'failed', 'network'],
  ["fatal: Unable to create '/x/packed-refs.lock': File exists.", 'failed', 'locked'],
  ["error: could not open '.git/x' for reading: Permission denied", 'failed', 'unknown'],
  ['error: unable to open x: Permission denied\nfatal: bad object HEAD', 'failed', 'unknown'],
  ['error: object file ./objects/ab/cd is empty', 'failed', 'corrupt'],
  ['fatal: something new', 'failed', 'unknown'],
])('%s → %s', (stderr, kind, trouble) => {
  const account = explainFailure('pushing', stderr)
  expect(account.errorKind).toBe(trouble)
  expect(account.refused.refusal.kind).toBe(kind)
  expect(account.refused.refusal.message).toMatch(/^pushing: /)
})
