/** The worker's policy for addresses: folders below the named ones, and hosts at public addresses. */
import { chmodSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import type { CodeHost } from '../../../../core/ports/code-host.ts'
import { yes } from '../../../../core/result.ts'
import type { Http } from '../../../../providers/http/http-types.ts'
import { createGit } from '../../../../worker/git/git.ts'
import {
  guardCodeHost,
  guardHttp,
  RemotePolicy,
  type RemotePolicyOptions,
} from '../../../../worker/git/remote-policy.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { closeAfterTest } from '../../../support/test-resources.ts'
import { git, got, refusalOf } from './git-fixture.ts'

// ---- folders -------------------------------------------------------------------------------------------------------

function createFolders() {
  const root = tempFolder()
  const make = (path: string) => {
    mkdirSync(join(root, path), { recursive: true })
    return join(root, path)
  }
  const bare = (path: string) => {
    git(make(path), 'init', '-q', '--bare')
    return join(root, path)
  }
  const [allowed, own] = [make('srv/git'), make('own')]
  const policy = (allowedFolders: readonly string[] = [allowed]) =>
    new RemotePolicy({ localRepositories: { allowedFolders, ownFolders: [own] } })
  return { root, allowed, own, make, bare, policy }
}

const gitDirOf = async (policy: RemotePolicy, address: string) => got(await policy.check(address))
const refused = async (policy: RemotePolicy, address: string) => refusalOf(await policy.check(address))
const OUTSIDE = /^forbidden: .* is not below a folder that this worker may use \(.*--local-repos/

describe('a folder', () => {
  test('is refused unless the worker was started with a folder above it', async () => {
    const { bare, policy } = createFolders()
    const [inside, outside] = [bare('srv/git/ada/lamps.git'), bare('srv/other/lamps.git')]
    expect(await gitDirOf(policy(), inside)).toEqual({ protocol: 'file', gitDir: inside })
    expect(await gitDirOf(policy(), `file://${inside}`)).toEqual({ protocol: 'file', gitDir: inside })
    expect(await refused(policy(), outside)).toMatch(OUTSIDE)
    expect(await refused(policy([]), inside)).toMatch(/none is allowed/)
    expect(await refused(new RemotePolicy(), inside)).toMatch(OUTSIDE)
    expect(await refused(policy(), `${inside}/../../../../other/lamps.git`)).toMatch(OUTSIDE)
    bare('srv/git-more/lamps.git')
    expect(await refused(policy(), inside.replace('srv/git/ada', 'srv/git-more'))).toMatch(OUTSIDE)
  })

  test('in the allowed one that is a link elsewhere is refused, also behind the names that git tries', async () => {
    const { allowed, bare, make, policy } = createFolders()
    const secret = bare('home/secret.git')
    symlinkSync(secret, join(allowed, 'link'))
    symlinkSync(secret, join(allowed, 'lamps.git'))
    symlinkSync(secret, join(make('srv/git/tree'), '.git'))
    for (const name of ['link', 'lamps.git', 'lamps', 'tree', 'tree/.git'])
      expect(await refused(policy(), join(allowed, name))).toMatch(OUTSIDE)
  })

  test('that leads on to another repository is refused: a file .git, a linked worktree, a repository inside', async () => {
    const { allowed, bare, make, policy } = createFolders()
    const secret = bare('home/secret.git')
    writeFileSync(join(make('srv/git/tree'), '.git'), `gitdir: ${secret}\n`)
    expect(await refused(policy(), join(allowed, 'tree'))).toMatch(/^invalid: .*names another repository/)
    const linked = bare('srv/git/linked.git')
    writeFileSync(join(linked, 'commondir'), `${secret}\n`)
    expect(await refused(policy(), linked)).toMatch(/^invalid: .*linked worktree/)
    const nested = bare('srv/git/nested.git/.git')
    git(nested, 'init', '-q', '--bare', join(nested, '.git'))
    expect(await refused(policy(), join(allowed, 'nested.git'))).toMatch(
      /^invalid: .*another repository inside/,
    )
  })

  test('of a worktree is served by its git directory', async () => {
    const { allowed, make, policy } = createFolders()
    git(make('srv/git/tree'), 'init', '-q')
    expect(await gitDirOf(policy(), join(allowed, 'tree'))).toMatchObject({
      gitDir: join(allowed, 'tree/.git'),
    })
  })

  test('of the worker itself is refused, and so is an allowed folder around it or in it', async () => {
    const { root, own, bare, make, policy } = createFolders()
    const planted = bare('own/sandboxes/run-1/work/planted.git')
    const beside = bare('beside.git')
    symlinkSync(planted, join(make('srv/git'), 'planted.git'))
    expect(await refused(policy(), planted)).toMatch(OUTSIDE)
    expect(await refused(policy(), join(root, 'srv/git/planted.git'))).toMatch(OUTSIDE)
    for (const folder of [root, '/', own, join(own, 'sandboxes')]) {
      expect(await refused(policy([folder]), planted)).toMatch(OUTSIDE)
      expect(await refused(policy([folder]), beside)).toMatch(OUTSIDE)
      expect(await policy([folder]).localRepositories.findUselessFolders()).toEqual([
        expect.stringContaining(`the worker's own folder ${own}`),
      ])
      expect(await refused(policy([folder]), beside)).toContain(`the worker's own folder ${own}`)
    }
    expect(await policy().localRepositories.findUselessFolders()).toEqual([])
    expect(await policy([join(root, 'absent')]).localRepositories.findUselessFolders()).toEqual([
      expect.stringMatching(/absent does not exist/),
    ])
  })

  test('that only its owner may read is refused before git looks at it', async () => {
    const { root, bare, policy } = createFolders()
    const secret = bare('home/secret.git')
    chmodSync(join(root, 'home'), 0o700)
    const worker = createGit({ folder: join(root, 'own/git'), clock: realClock, policy: policy() })
    const ran = await worker.run({
      args: ['ls-remote', secret],
      remote: { address: secret },
      timeoutMs: 20_000,
    })
    expect(refusalOf(ran)).toMatch(OUTSIDE)
  })

  test('that is absent is named as absent only below an allowed one', async () => {
    const { allowed, root, policy } = createFolders()
    expect(await refused(policy(), join(root, 'absent.git'))).toMatch(OUTSIDE)
    expect(await refused(policy(), allowed)).toMatch(/^unknown: .* is no git repository/)
  })

  test('below an allowed one that is away is refused with that one, which can come back', async () => {
    const { allowed, root, bare, policy } = createFolders()
    const lamps = bare('srv/git/lamps.git')
    renameSync(allowed, join(root, 'srv/away'))
    const problem = await refused(policy(), lamps)
    expect(problem).toMatch(/^unknown: .* does not exist .*; mount it, move it back, or give .*access$/)
    expect(problem).toContain(` ${allowed},`)
    expect(await refused(policy(), join(root, 'srv/other.git'))).toMatch(OUTSIDE)
    renameSync(join(root, 'srv/away'), allowed)
    expect(await gitDirOf(policy(), lamps)).toMatchObject({ gitDir: lamps })
  })

  test('is judged by where it is now, not by where it was at the start', async () => {
    const { allowed, bare, policy } = createFolders()
    const [lamps, secret] = [bare('srv/git/lamps.git'), bare('home/secret.git')]
    const started = policy()
    await gitDirOf(started, lamps)
    renameSync(lamps, join(allowed, 'moved.git'))
    symlinkSync(secret, lamps)
    expect(await refused(started, lamps)).toMatch(OUTSIDE)
  })
})

// ---- hosts ---------------------------------------------------------------------------------------------------------

const PUBLIC = '93.184.216.34'
const NAMES: Readonly<Record<string, readonly string[]>> = {
  'code.example': ['2606:2800::1', PUBLIC],
  'inside.example': ['10.0.0.5'],
  'both.example': [PUBLIC, '127.0.0.1'],
  'meta.example': ['169.254.169.254'],
}
const hosts = (options: RemotePolicyOptions = {}) =>
  new RemotePolicy({ resolve: async (host) => NAMES[host] ?? [], ...options })
const NOT_PUBLIC = /^forbidden: .*not at a public address.*--private-code-host/

describe('a host', () => {
  test('at a public address is contacted at exactly the addresses that were checked', async () => {
    for (const address of ['https://code.example/x', 'http://code.example/x', 'git@code.example:x'])
      expect(got(await hosts().check(address))).toMatchObject({ addresses: [PUBLIC, '2606:2800::1'] })
    expect(got(await hosts().check(`https://${PUBLIC}/x`))).not.toHaveProperty('addresses')
  })

  test.each([
    'http://127.0.0.1/x',
    'http://localhost/x',
    'http://lamps.localhost/x',
    'http://intranet/x',
    'https://10.0.0.5/x',
    'https://192.168.1.1/x',
    'https://169.254.169.254/x',
    'https://100.64.0.1/x',
    'https://[::1]/x',
    'https://[fd00::1]/x',
    'https://[fe80::1]/x',
    'https://[::ffff:127.0.0.1]/x',
    'https://[64:ff9b::7f00:1]/x',
    'https://inside.example/x',
    'https://both.example/x',
    'https://meta.example/x',
    'ssh://git@10.0.0.5/x',
    'git@inside.example:x',
    'git@localhost:x',
  ])('%s is refused, because it is not public', async (address) => {
    expect(await refused(hosts(), address)).toMatch(NOT_PUBLIC)
  })

  test('is refused at another port', async () => {
    for (const address of [
      'https://code.example:9200/x',
      'ssh://git@code.example:6379/x',
      `http://${PUBLIC}:25/x`,
    ])
      expect(await refused(hosts(), address)).toMatch(/^forbidden: .*git contacts only ports 443, 80, 22/)
    expect(got(await hosts().check('ssh://git@code.example:443/x'))).toMatchObject({ port: 443 })
  })

  test('that the operator named is contacted wherever it is, at the named port', async () => {
    const named = hosts({ privateHosts: ['inside.example', '127.0.0.1:3000'] })
    expect(got(await named.check('https://inside.example/x'))).not.toHaveProperty('addresses')
    expect(got(await named.check('git@INSIDE.example:x'))).toMatchObject({ protocol: 'ssh' })
    expect(got(await named.check('http://127.0.0.1:3000/x'))).toMatchObject({ port: 3000 })
    for (const address of [
      'http://127.0.0.1:3001/x',
      'http://localhost:3000/x',
      'https://inside.example:8443/x',
    ])
      expect(await refused(named, address)).toMatch(/^forbidden/)
  })

  test('without an address is tried again later, and left to the proxy where there is one', async () => {
    expect(await refused(hosts(), 'https://absent.example/x')).toMatch(
      /^unavailable: Could not resolve host.*--private-code-host absent.example:443$/,
    )
    expect(await refused(hosts(), 'git@code.example-work:x')).toMatch(
      /--private-code-host code.example-work:22$/,
    )
    const broken = hosts({ resolve: () => Promise.reject(new Error('no name server')) })
    expect(await refused(broken, 'https://code.example/x')).toMatch(/^unavailable/)
    const proxies = { http: '', https: 'http://proxy.example:3128', noProxy: 'direct.example' }
    expect(got(await hosts({ proxies }).check('https://absent.example/x'))).not.toHaveProperty('addresses')
    expect(await refused(hosts({ proxies }), 'https://inside.example/x')).toMatch(NOT_PUBLIC)
    for (const address of ['https://direct.example/x', 'http://absent.example/x', 'git@absent.example:x'])
      expect(await refused(hosts({ proxies }), address)).toMatch(/^unavailable/)
  })
})

// ---- what git does -------------------------------------------------------------------------------------------------

describe('git', () => {
  test('connects to the checked address, whatever the name resolves to now', async () => {
    const seen: (string | undefined)[] = []
    const server = createServer((request, response) => {
      seen.push(request.headers.host)
      response.writeHead(404).end()
    })
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    closeAfterTest(() => server.close())
    const { port } = server.address() as AddressInfo
    const policy = {
      check: async () =>
        yes({ protocol: 'http' as const, host: 'code.example', port, addresses: ['127.0.0.1'] }),
    }
    const worker = createGit({ folder: tempFolder(), clock: realClock, policy })
    for (const name of ['code.example', 'code.example.']) {
      const address = `http://${name}:${port}/ada/lamps.git`
      got(await worker.run({ args: ['ls-remote', address], remote: { address }, timeoutMs: 20_000 }))
    }
    expect(seen).toEqual([`code.example:${port}`, expect.stringMatching(/^code\.example\.?:/)])
  })

  test('lets ssh connect to the checked address, under the host’s own key', async () => {
    const policy = hosts({ privateHosts: ['private.example'] })
    const worker = createGit({ folder: tempFolder(), clock: realClock, policy })
    const commandFor = async (address: string) => {
      const call = {
        args: ['-c', 'alias.x=!printenv GIT_SSH_COMMAND', 'x'],
        remote: { address },
        timeoutMs: 20_000,
      }
      return got(await worker.run(call)).output.trim()
    }
    expect(await commandFor('git@code.example:x')).toMatch(
      `-o HostName=${PUBLIC} -o Port=22 -o 'HostKeyAlias=code.example'`,
    )
    expect(await commandFor('ssh://git@code.example:443/x')).toMatch(
      "-o Port=443 -o 'HostKeyAlias=[code.example]:443'",
    )
    expect(await commandFor(`ssh://git@${PUBLIC}:443/x`)).toMatch(`-o HostName=${PUBLIC} -o Port=443`)
    expect(await commandFor('git@private.example:x')).not.toMatch(/HostName|Port/)
  })

  test('is not started for an address that the policy refuses', async () => {
    const worker = createGit({ folder: tempFolder(), clock: realClock, program: '/nowhere/git' })
    const address = 'http://127.0.0.1:1/x'
    const ran = await worker.run({ args: ['ls-remote', address], remote: { address }, timeoutMs: 20_000 })
    expect(refusalOf(ran)).toMatch(/^forbidden/)
  })
})

describe('a code host', () => {
  const asked: string[] = []
  const codehost: CodeHost = {
    gitAddress: (remote) => remote,
    findPull: async () => yes(undefined),
    openPull: async () => yes({ number: 1, url: '', state: 'open' as const }),
    hasComment: async () => yes(true),
    comment: async (remote) => {
      asked.push(remote)
      return yes(undefined)
    },
    dropRepeats: async () => yes(0),
  }

  test('acts only in an allowed folder', async () => {
    const { allowed, root, policy } = createFolders()
    expect(
      got(await guardCodeHost(codehost, { path: allowed }, policy()).comment('a/b', 1, '')),
    ).toBeUndefined()
    expect(refusalOf(await guardCodeHost(codehost, { path: root }, policy()).comment('c/d', 1, ''))).toMatch(
      OUTSIDE,
    )
    expect(asked).toEqual(['a/b'])
  })

  test('is asked only at an allowed API address', async () => {
    const guard = (apiUrl: string) =>
      guardCodeHost(codehost, { apiUrl }, hosts({ privateHosts: ['127.0.0.1:3000'] }))
    got(await guard('http://127.0.0.1:3000/api/v3').findPull('a/b', 'x', 'main'))
    got(await guard('https://code.example/api/v3').hasComment('a/b', 1, ''))
    for (const apiUrl of [
      'http://127.0.0.1:3001/api/v3',
      'https://inside.example/api',
      'https://code.example:9200/',
    ])
      expect(refusalOf(await guard(apiUrl).findPull('a/b', 'x', 'main'))).toMatch(/^forbidden/)
  })

  test('is asked at public addresses only, unless the operator named it', async () => {
    const policy = hosts({ privateHosts: ['127.0.0.1:3000', 'inside.example'] })
    const http: Http = {
      send: async ({ publicOnly = false }) => yes({ status: 200, headers: {}, text: String(publicOnly) }),
      close: async () => {},
    }
    const isPublicOnly = async (url: string) =>
      got(await guardHttp(http, { apiUrl: url }, policy).send({ method: 'GET', url, headers: {} })).text
    expect(await isPublicOnly('https://code.example/api/v3')).toBe('true')
    expect(await isPublicOnly('http://127.0.0.1:3001/')).toBe('true')
    expect(await isPublicOnly('no address')).toBe('true')
    expect(await isPublicOnly('http://127.0.0.1:3000/')).toBe('false')
    expect(await isPublicOnly('https://inside.example./api')).toBe('false')
  })
})
