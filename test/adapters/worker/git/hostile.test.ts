/**
 * Malicious checkouts and bundles: nothing that an agent plants in its checkout, or exports in place of a bundle, has
 * an effect outside the sandbox. Each planted command has a control: a person's git in the same tree does run it.
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, linkSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { CheckedOut, SandboxRunner } from '../../../../worker/git/git-ports.ts'
import {
  aJob,
  createGitFixture,
  type GitFixture,
  git,
  got,
  never,
  type RunFixture,
  refusalOf,
} from './git-fixture.ts'

async function ready(): Promise<{ g: GitFixture; run: RunFixture; from: CheckedOut }> {
  const g = createGitFixture()
  const run = g.run()
  return { g, run, from: got(await g.sources.checkOut(aJob(), run.folders, run.sandbox, never)) }
}

/** The path exists only outside, so a command that writes there has run outside. */
const planted: readonly (readonly [what: string, plant: (mark: string) => string, trigger: string])[] = [
  [
    'a watcher of the file system',
    (mark) => `git config core.fsmonitor 'touch ${mark}; false'`,
    'git status',
  ],
  [
    'a clean filter',
    (mark) => `git config filter.x.clean 'touch ${mark}; cat'; echo '* filter=x' > .gitattributes`,
    'touch lamp; git add -A',
  ],
  [
    'a hook',
    (mark) => `printf '#!/bin/sh\\ntouch ${mark}\\n' > .git/hooks/pre-push; chmod 755 .git/hooks/pre-push`,
    'git push . HEAD:refs/heads/elsewhere',
  ],
  [
    'hooks elsewhere',
    (mark) =>
      `mkdir h; printf '#!/bin/sh\\ntouch ${mark}\\n' > h/pre-commit; chmod 755 h/pre-commit; git config core.hooksPath h`,
    'git commit --allow-empty -m x',
  ],
  [
    'an ssh command',
    (mark) => `git config core.sshCommand 'touch ${mark}; false'`,
    'git ls-remote git@localhost:x || true',
  ],
  [
    'another address',
    (mark) =>
      `git config remote.origin.url 'ext::sh -c touch% ${mark}'; git config protocol.ext.allow always`,
    'git fetch || true',
  ],
  [
    'a text conversion',
    (mark) =>
      `git config diff.x.textconv 'touch ${mark}; cat'; echo '* diff=x' > .gitattributes; echo x >> lamp`,
    'git diff HEAD~1',
  ],
  [
    'a diff of its own',
    (mark) => `git config diff.external 'touch ${mark}; true'; echo x >> lamp`,
    'git diff HEAD~1',
  ],
  [
    'a keeper of credentials',
    (mark) => `git config credential.helper '!touch ${mark};'`,
    'echo url=https://x.example | git credential fill || true',
  ],
  [
    'settings from another file',
    (mark) =>
      `printf '[core]\\n\\tfsmonitor = touch ${mark}; false\\n' > other; git config include.path ../other`,
    'git status',
  ],
]

describe('planted in the checkout', () => {
  test.each(planted)('%s acts for a person, and never for the worker', async (_, plant, trigger) => {
    const { g, run, from } = await ready()
    const mark = join(g.folder, 'mark')
    chmodSync(g.folder, 0o777)
    await run.sh(`${plant(mark)}; echo work > work`)
    const work = got(await g.sources.collect(aJob(), run.folders, run.sandbox, from))
    const order = { job: aJob(), leaseId: 'ls-1', folders: run.folders, from, collected: work, summary: '' }
    got(await g.sources.publish(order, g.codehost, () => true, never))
    expect(git(g.remote, 'show', 'switchyard/eng-12:work')).toBe('work')
    expect(existsSync(mark)).toBe(false)
    chmodSync(run.folders.work, 0o777)
    const env = {
      PATH: process.env.PATH,
      HOME: '/nonexistent',
      GIT_TERMINAL_PROMPT: '0',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      GIT_CONFIG_GLOBAL: join(g.folder, 'safe'),
    }
    const settings = ['[safe]', 'directory = *', '[user]', 'name = x', 'email = x', '']
    writeFileSync(join(g.folder, 'safe'), settings.join('\n'))
    execFileSync('sh', ['-c', `${trigger} || true`], { cwd: run.folders.work, env, stdio: 'pipe' })
    expect(existsSync(mark)).toBe(true)
  })
})

/** Runs git in the agent's checkout from outside; only for commands that ignore its settings. */
function owner(run: RunFixture, input: string, ...args: readonly string[]): Buffer {
  const env = {
    ...process.env,
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'safe.directory',
    GIT_CONFIG_VALUE_0: '*',
  }
  return execFileSync('git', [`--git-dir=${run.folders.work}/.git`, ...args], { env, input })
}

describe('exported in place of a bundle', () => {
  /** Runs after the worker's own command inside, like a background process that the command left. */
  const swapped = (run: RunFixture, swap: (bundle: string) => void): SandboxRunner => ({
    async run(command, options) {
      const result = await run.sandbox.run(command, options)
      swap(join(run.folders.exchange, 'work.bundle'))
      return result
    },
  })

  const refusal = async (swap: (bundle: string, run: RunFixture) => void, script = 'echo work > work') => {
    const { g, run, from } = await ready()
    await run.sh(script)
    const sandbox = swapped(run, (bundle) => swap(bundle, run))
    const answer = await g.sources.collect(aJob(), run.folders, sandbox, from)
    expect(existsSync(join(run.folders.exchange, 'work.bundle'))).toBe(false)
    return refusalOf(answer)
  }

  const replaced = (text: string | Uint8Array) => (bundle: string) => writeFileSync(bundle, text)

  test('a link, a hard link, a pipe and a folder are refused', async () => {
    const link = (bundle: string) => {
      rmSync(bundle)
      symlinkSync('/etc/passwd', bundle)
    }
    expect(await refusal(link)).toMatch(/^invalid: .*no bundle \(ELOOP\)/)
    expect(await refusal((bundle) => linkSync(bundle, `${bundle}.2`))).toMatch(/^invalid: .*no plain file/)
    const pipe = (bundle: string) => {
      rmSync(bundle)
      execFileSync('mkfifo', [bundle])
    }
    expect(await refusal(pipe)).toMatch(/^invalid: .*no plain file/)
    const folder = (bundle: string) => {
      rmSync(bundle)
      execFileSync('mkdir', [bundle])
    }
    expect(await refusal(folder)).toMatch(/^invalid: .*no plain file/)
  })

  test('malformed bundles are refused: noise, wrong version, no header end, wrong refs, missing head', async () => {
    const head = '1'.repeat(40)
    expect(await refusal(replaced('noise'))).toMatch(/^invalid: .*no end of a header/)
    expect(await refusal(replaced(''))).toMatch(/^invalid: .*no end of a header/)
    expect(
      await refusal(replaced(`# v3 git bundle\n@filter=blob:none\n${head} refs/switchyard/out\n\nPACK`)),
    ).toMatch(/another version/)
    expect(await refusal(replaced(`# v2 git bundle\n${head} refs/heads/main\n\nPACK`))).toMatch(
      /and nothing else/,
    )
    expect(
      await refusal(
        replaced(`# v2 git bundle\n${head} refs/switchyard/out\n${head} refs/heads/main\n\nPACK`),
      ),
    ).toMatch(/and nothing else/)
    expect(await refusal(replaced(`# v2 git bundle\n${head} refs/switchyard/out\n\nPACK`))).toMatch(
      /^invalid: taking the agent’s work/,
    )
    const exportBlob = (bundle: string, run: RunFixture) =>
      writeFileSync(bundle, forged(run, head, '', '--all'))
    expect(await refusal(exportBlob)).toMatch(/^invalid: .*no commit/)
  })

  /** Writes a tree object like git, but accepts entries that git would refuse. */
  const forged = (run: RunFixture, head: string, wanted: string, ...args: readonly string[]): Buffer => {
    const pack = owner(run, wanted, 'pack-objects', '--stdout', '-q', ...args)
    return Buffer.concat([Buffer.from(`# v2 git bundle\n${head} refs/switchyard/out\n\n`), pack])
  }

  test.each(['.git', '.GIT', '..', '.', 'git~1'])('a tree with %s is refused', async (name) => {
    const script = `
      tree=$(printf '100755 blob %s\\tpre-commit\\n' "$(echo x | git hash-object -w --stdin)" | git mktree)
      evil=$(printf '040000 tree %s\\t${name}\\n' "$tree" | git mktree)
      git update-ref refs/evil "$(git commit-tree "$evil" -p HEAD -m evil)"; echo work > work`
    const swap = (bundle: string, run: RunFixture) => {
      const head = owner(run, '', 'rev-parse', 'refs/evil').toString().trim()
      writeFileSync(bundle, forged(run, head, `${head}\n^${head}~1\n`, '--revs'))
    }
    expect(await refusal(swap, script)).toMatch(
      /^invalid: taking the agent’s work: .*(hasDot|contains '|\.git)/i,
    )
  })

  test('a commit without its tree is refused', async () => {
    const torn = await refusal((bundle, run) => {
      const head = owner(run, '', 'rev-parse', 'refs/switchyard/out').toString().trim()
      writeFileSync(bundle, forged(run, head, `${head}\n`))
    })
    expect(torn).toMatch(/^invalid: taking the agent’s work/)
  })

  test('an old bundle in the exchange folder is ignored', async () => {
    const { g, run, from } = await ready()
    writeFileSync(join(run.folders.exchange, 'work.bundle'), 'old')
    expect(got(await g.sources.collect(aJob(), run.folders, run.sandbox, from)).head).toBeUndefined()
    expect(readdirSync(run.folders.exchange)).toEqual([])
  })
})
