/**
 * A malicious repository on the other side of a local transport: nothing that it configures runs, neither in a fetch
 * nor in a push. Each planted command has a control: a person's git runs it.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import { createGit, type Git, type GitResult } from '../../../../worker/git/git.ts'
import { RemotePolicy } from '../../../../worker/git/remote-policy.ts'
import { createRepository } from '../../../support/git.ts'
import { git, got, passableFolder } from './git-fixture.ts'

interface Transport {
  /** Every planted command creates a file here. */
  readonly marks: string
  /** The allowed folder. */
  readonly allowed: string
  /** The malicious repository. */
  readonly remote: string
  /** The worker's own bare repository. */
  readonly mirror: string
  readonly worker: Git
}

let transport: Transport
beforeEach(() => {
  const root = passableFolder()
  const [marks, allowed, mirror] = [join(root, 'marks'), join(root, 'git'), join(root, 'own/mirror.git')]
  const remote = join(allowed, 'lamps.git')
  for (const folder of [marks, allowed, join(root, 'own')]) mkdirSync(folder)
  const draft = join(root, 'draft')
  createRepository(draft, { First: {}, Second: { '.gitattributes': '* filter=x diff=x merge=x\n' } })
  git(draft, 'clone', '-q', '--bare', draft, remote)
  git(draft, 'clone', '-q', '--bare', draft, mirror)
  const policy = new RemotePolicy({
    localRepositories: { allowedFolders: [allowed], ownFolders: [join(root, 'own')] },
  })
  transport = {
    marks,
    allowed,
    remote,
    mirror,
    worker: createGit({ folder: join(root, 'own/git'), clock: realClock, policy }),
  }
})

const marksSeen = () => readdirSync(transport.marks).sort()

/** A shell command that leaves a mark. Settings append arguments of their own to the last word. */
const marking = (mark: string) => `touch ${join(transport.marks, mark)}; true`

function writeCommand(path: string, mark: string): void {
  writeFileSync(path, `#!/bin/sh\n${marking(mark)}\n`)
  chmodSync(path, 0o755)
}

const call = (args: readonly string[], address: string): Promise<GitResult> =>
  transport.worker
    .run({ args, folder: transport.mirror, remote: { address }, timeoutMs: 60_000 })
    .then((ran) => got(ran))

const asWorker = {
  fetch: (address: string) => call(['fetch', '--quiet', address, '+refs/heads/*:refs/seen/*'], address),
  list: (address: string) => call(['ls-remote', address], address),
  push: (address: string, to = 'refs/heads/work') =>
    call(['push', '--porcelain', '--force', address, `refs/heads/main~1:${to}`], address),
}

const HOOKS = [
  'pre-receive',
  'update',
  'post-receive',
  'post-update',
  'reference-transaction',
  'proc-receive',
  'push-to-checkout',
  'pre-auto-gc',
  'post-checkout',
  'post-index-change',
  'post-rewrite',
  'fsmonitor-watchman',
]

function plantHooks(folder: string): void {
  mkdirSync(folder, { recursive: true })
  for (const hook of HOOKS) writeCommand(join(folder, hook), `hook-${hook}`)
}

/** Every setting that git runs as a command, in whichever of its programs. */
const COMMAND_SETTINGS = [
  'core.alternateRefsCommand',
  'core.fsmonitor',
  'core.sshCommand',
  'core.gitProxy',
  'core.askPass',
  'core.editor',
  'core.pager',
  'sequence.editor',
  'uploadpack.packObjectsHook',
  'gc.recentObjectsHook',
  'filter.x.clean',
  'filter.x.smudge',
  'filter.x.process',
  'diff.external',
  'diff.x.textconv',
  'diff.x.command',
  'merge.x.driver',
  'merge.tool',
  'gpg.program',
  'gpg.ssh.program',
  'gpg.x509.program',
  'gpg.ssh.defaultKeyCommand',
  'credential.helper',
  'pager.upload-pack',
  'pager.receive-pack',
  'pager.for-each-ref',
  'alias.upload-pack',
  'alias.receive-pack',
  'interactive.diffFilter',
  'tar.tar.gz.command',
  'trailer.x.command',
  'remote.origin.uploadpack',
  'remote.origin.receivepack',
  'remote.origin.vcs',
  'ssh.variant',
  'trace2.eventTarget',
]

function plantSettings(remote: string, file?: string): void {
  const where = file === undefined ? [] : ['--file', file]
  for (const name of COMMAND_SETTINGS) {
    const prefix = /^(alias|credential)/.test(name) ? '!' : ''
    git(remote, 'config', ...where, name, `${prefix}${marking(`setting-${name}`)}`)
  }
}

describe('the other side of a local transport', () => {
  test('runs no hook, though a person’s push runs them', async () => {
    const { remote, mirror } = transport
    plantHooks(join(remote, 'hooks'))
    for (const [key, value] of [
      ['receive.procReceiveRefs', 'refs/for'],
      ['receive.autogc', 'true'],
      ['gc.auto', '1'],
      ['receive.updateServerInfo', 'true'],
    ] as const)
      git(remote, 'config', key, value)
    expect(await asWorker.fetch(remote)).toMatchObject({ code: 0 })
    expect(await asWorker.list(remote)).toMatchObject({ code: 0 })
    expect(await asWorker.push(remote)).toMatchObject({ code: 0 })
    await asWorker.push(remote, 'refs/for/main')
    expect(git(remote, 'rev-parse', 'work')).toBe(git(mirror, 'rev-parse', 'main~1'))
    expect(marksSeen()).toEqual([])
    git(mirror, 'push', '-q', remote, 'main~1:refs/heads/control')
    expect(marksSeen()).toEqual(
      expect.arrayContaining(['hook-post-receive', 'hook-pre-receive', 'hook-update']),
    )
  })

  test('runs no hook of another folder', async () => {
    const { remote, mirror, allowed } = transport
    plantHooks(join(allowed, 'hooks'))
    git(remote, 'config', 'core.hooksPath', join(allowed, 'hooks'))
    expect(await asWorker.push(remote)).toMatchObject({ code: 0 })
    expect(marksSeen()).toEqual([])
    git(mirror, 'push', '-q', remote, 'main~1:refs/heads/control')
    expect(marksSeen()).toContain('hook-pre-receive')
  })

  test.each(['its own file', 'an included file', 'a file included by condition'])(
    'obeys no command in %s',
    async (place) => {
      const { remote, mirror, allowed } = transport
      const alternate = join(allowed, 'alternate.git')
      git(remote, 'clone', '-q', '--bare', remote, alternate)
      writeFileSync(join(remote, 'objects/info/alternates'), `${alternate}/objects\n`)
      const included = place === 'its own file' ? undefined : join(allowed, 'included')
      plantSettings(remote, included)
      if (place === 'an included file') git(remote, 'config', 'include.path', included ?? '')
      if (place === 'a file included by condition')
        git(remote, 'config', `includeIf.gitdir:${remote}.path`, included ?? '')
      expect(await asWorker.fetch(remote)).toMatchObject({ code: 0 })
      expect(await asWorker.list(remote)).toMatchObject({ code: 0 })
      expect(await asWorker.push(remote)).toMatchObject({ code: 0 })
      expect(marksSeen()).toEqual([])
      git(mirror, 'push', '-q', remote, 'main~1:refs/heads/control')
      expect(marksSeen()).toContain('setting-core.alternateRefsCommand')
    },
  )

  test('updates no working tree, where filters, a file watcher and hooks would run', async () => {
    const { remote, mirror, allowed } = transport
    const tree = join(allowed, 'tree')
    git(remote, 'clone', '-q', remote, tree)
    git(tree, 'config', 'receive.denyCurrentBranch', 'updateInstead')
    git(tree, 'reset', '-q', '--hard', 'HEAD~1')
    plantSettings(tree)
    plantHooks(join(tree, '.git/hooks'))
    const { code, output } = await call(
      ['push', '--porcelain', tree, 'refs/heads/main:refs/heads/main'],
      tree,
    )
    expect([code, output]).toEqual([1, expect.stringContaining('branch is currently checked out')])
    expect(await asWorker.push(tree)).toMatchObject({ code: 0 })
    expect(marksSeen()).toEqual([])
    rmSync(join(tree, '.git/hooks/push-to-checkout'))
    try {
      git(mirror, 'push', '-q', tree, 'main')
    } catch {
      // The planted hooks and filters may refuse the push; their marks are what counts.
    }
    expect(marksSeen()).toEqual(expect.arrayContaining(['hook-pre-receive', 'setting-core.fsmonitor']))
  })

  test('fetches no missing object from elsewhere', async () => {
    const { remote } = transport
    for (const [key, value] of [
      ['core.repositoryFormatVersion', '1'],
      ['extensions.partialClone', 'origin'],
      ['remote.origin.promisor', 'true'],
      ['remote.origin.url', remote],
      ['remote.origin.uploadpack', marking('lazy-fetch')],
      ['protocol.ext.allow', 'always'],
    ] as const)
      git(remote, 'config', key, value)
    const tree = git(remote, 'rev-parse', 'main^{tree}')
    rmSync(join(remote, 'objects', tree.slice(0, 2)), { recursive: true, force: true })
    rmSync(join(remote, 'objects/pack'), { recursive: true, force: true })
    await asWorker.fetch(remote)
    await asWorker.push(remote)
    expect(marksSeen()).toEqual([])
  })

  test('is refused when its configuration defines hooks by name, which newer versions of git run', async () => {
    const { remote } = transport
    git(remote, 'config', 'hook.planted.event', 'pre-receive')
    git(remote, 'config', 'hook.planted.command', marking('named-hook'))
    for (const ran of [await asWorker.fetch(remote), await asWorker.push(remote)])
      expect(ran).toMatchObject({ code: 128, stderr: expect.stringContaining('configures hooks by name') })
    expect(marksSeen()).toEqual([])
  })

  test('works at a path with quotes, spaces and characters of the shell', async () => {
    const { remote, allowed, marks } = transport
    const odd = join(allowed, `it's $(touch ${marks.replaceAll('/', '_')}) \`x\` "y" #.git`)
    git(remote, 'clone', '-q', '--bare', remote, odd)
    expect(await asWorker.fetch(odd)).toMatchObject({ code: 0 })
    expect(await asWorker.push(odd)).toMatchObject({ code: 0 })
    expect(existsSync(join(odd, 'refs/heads/work'))).toBe(true)
  })
})
