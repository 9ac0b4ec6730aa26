/** An agent that puts a secret of its run into what would be pushed: real git, and nothing reaches the code host. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import type { Result } from '../../../../core/result.ts'
import type { FoundKey } from '../../../../protocol/found-key.ts'
import type { Job } from '../../../../protocol/frames.ts'
import { createGit, type Git, withSignal } from '../../../../worker/git/git.ts'
import { dropKnownKeys, SEARCHED_KEYS_MAX } from '../../../../worker/git/work/search-commits.ts'
import { FINE_GRAINED_TOKEN, GITHUB_TOKEN, KEYS, PRIVATE_KEY } from '../../../support/made-up-keys.ts'
import {
  aJob,
  createGitFixture,
  type GitFixture,
  git,
  got,
  never,
  passableFolder,
  type RunFixture,
  refusalOf,
} from './git-fixture.ts'

const KEY = 'sk-ant-oat01-Zx9qLmT7vB2nR5wK8dJ4sH1fGc6YpE3u'
const BRANCH = 'switchyard/eng-12'
const withKey = (more: Partial<Job> = {}) =>
  aJob({ credentials: { agent: { kind: 'oauth-token', value: KEY } }, ...more })

/** Checks out, lets the agent work, and publishes as an execution does. */
async function published(
  g: GitFixture,
  run: RunFixture,
  work: () => Promise<unknown>,
  { job = withKey(), summary = 'Done.' } = {},
): Promise<Result<unknown>> {
  const { folders, sandbox } = run
  const from = got(await g.sources.checkOut(job, folders, sandbox, never))
  await work()
  const collected = await g.sources.collect(job, folders, sandbox, from)
  if (!collected.ok) return collected
  const request = { job, leaseId: 'l1', folders, from, collected: collected.value, summary }
  return g.sources.publish(request, g.codehost, () => true, never)
}

function refsOf(g: GitFixture): string[] {
  return git(g.remote, 'for-each-ref', '--format=%(refname)').split('\n')
}

function pullsOf(g: GitFixture): string[] {
  return readdirSync(join(g.remote, '..')).filter((name) => name.includes('pulls'))
}

const base64 = Buffer.from(`key=${KEY}`).toString('base64')

describe('a run publishes nothing when its agent', () => {
  // All tests share the fixture, because none of these runs changes it.
  const g = createGitFixture()

  test.each<[string, string, RegExp]>([
    [
      'commits the key',
      `echo ${KEY} >a; git add a; git commit -qm x`,
      /the file a holds the agent’s credential/,
    ],
    ['leaves it uncommitted', `mkdir d; echo ${KEY} >d/a`, /the file d\/a holds /],
    ['wraps base64', `echo ${KEY} | base64 -w 20 >a; git add a; git commit -qm x`, /the file a holds /],
    [
      'commits it in hex',
      `printf %s ${KEY} | od -An -tx1 -v >a; git add a; git commit -qm x`,
      /the file a holds /,
    ],
    ['packs it', `echo ${KEY} | gzip -9 >a.gz; git add a.gz; git commit -qm x`, /the file a\.gz holds /],
    [
      'deletes it in the next commit',
      `echo ${KEY} >a; git add a; git commit -qm x; git rm -q a; git commit -qm y`,
      /the file a holds /,
    ],
    ['names a file so', `echo x >${KEY}; git add .; git commit -qm x`, /the name of a file holds /],
    [
      'names a folder so',
      `mkdir -p d/${KEY}; echo x >d/${KEY}/f; git add .; git commit -qm x`,
      /name of a file in d /,
    ],
    [
      'writes it into a message',
      `git commit -q --allow-empty -m 'see ${base64}'`,
      /the message of commit [0-9a-f]{12} /,
    ],
    [
      'hides it in a merged branch',
      `git checkout -qb side; echo ${KEY} >a; git add a; git commit -qm x; git checkout -q ${BRANCH}; git merge -q --no-ff -s ours -m m side`,
      /the file a holds /,
    ],
  ])('%s', async (_, script, sentence) => {
    const run = g.run()
    const refusal = refusalOf(await published(g, run, () => run.sh(`cd /work; ${script}`)))
    expect(refusal).toMatch(sentence)
    expect(refusal).toMatch(/so nothing was published/)
    expect(refusal).not.toContain(KEY)
    expect(refsOf(g)).toEqual(['refs/heads/main'])
    expect(pullsOf(g)).toEqual([])
  })

  test('writes it into its last message', async () => {
    const run = g.run()
    const summary = `I used ${Buffer.from(KEY).toString('hex')}.`
    const answer = await published(g, run, () => run.sh('cd /work; echo new >file'), { summary })
    expect(refusalOf(answer)).toMatch(/the text for the pull request holds the agent’s credential/)
    expect(refsOf(g)).toEqual(['refs/heads/main'])
  })
})

test('what the code host has already is not searched', async () => {
  const g = createGitFixture()
  writeFileSync(join(g.person, 'old'), KEY)
  writeFileSync(join(g.person, 'old.gz'), gzipSync(KEY))
  git(g.person, 'add', '-A')
  git(g.person, 'commit', '-q', '-m', 'A mistake of the past')
  git(g.person, 'push', '-q', 'origin', 'main')
  const run = g.run()
  got(await published(g, run, () => run.sh('cd /work; echo new >file')))
  expect(refsOf(g)).toContain(`refs/heads/${BRANCH}`)
})

test('a run with many files and a large one is published', async () => {
  const g = createGitFixture()
  const run = g.run()
  const script =
    'for n in $(seq 400); do echo $n >f$n; done; head -c 30000000 /dev/urandom >large; gzip -k f7'
  got(await published(g, run, () => run.sh(`cd /work; ${script}`)))
  expect(git(g.remote, 'ls-tree', '-r', '--name-only', BRANCH).split('\n').length).toBeGreaterThan(400)
})

describe('a follow-up', () => {
  const followUp = withKey({
    kind: 'follow-up',
    followUp: { id: 'fu-1', number: 1 },
    pull: {
      number: 1,
      url: 'https://code.example/1',
      headBranch: BRANCH,
      headRemote: 'ada/lamps',
      baseBranch: 'main',
      threads: [],
      reviews: [],
      comments: [],
    },
  })

  test('pushes nothing when its work holds a secret', async () => {
    const g = createGitFixture()
    git(g.person, 'push', '-q', 'origin', `main:refs/heads/${BRANCH}`)
    const before = git(g.remote, 'rev-parse', BRANCH)
    const run = g.run()
    const { folders, sandbox } = run
    const request = { job: followUp, folders, sandbox }
    const start = got(await g.sources.followUps.begin({ ...request, isRetained: false }, never))
    await run.sh(`cd /work; echo ${base64} >a`)
    const pushed = await g.sources.followUps.push({ ...request, start }, () => true, never)
    expect(refusalOf(pushed)).toMatch(/the file a holds the agent’s credential, so nothing was published/)
    expect(git(g.remote, 'rev-parse', BRANCH)).toBe(before)
  })

  test('posts no comment that holds one', async () => {
    const g = createGitFixture()
    const comment = { job: followUp, marker: '<!-- m -->', body: `${base64}\n<!-- m -->`, isTakenOver: false }
    const posted = await g.sources.followUps.postComment(comment, () => true, never)
    expect(refusalOf(posted)).toMatch(/the text for the pull request’s comment holds the agent’s credential/)
    expect(pullsOf(g)).toEqual([])
  })
})

describe('keys that are no secrets of the run', () => {
  const keysOf = (answer: Result<unknown>): readonly FoundKey[] =>
    answer.ok ? [] : (answer.refusal.keys ?? [])

  test.each<[string, (run: RunFixture) => Promise<unknown>, FoundKey[]]>([
    [
      'in a file',
      async (run) => {
        writeFileSync(join(run.folders.work, 'a.env'), `A=1\nB=${GITHUB_TOKEN}\n`)
      },
      [{ kind: 'a GitHub token', file: 'a.env', line: 2 }],
    ],
    [
      'in a file that a later commit deletes',
      async (run) => {
        writeFileSync(join(run.folders.work, 'id_rsa'), PRIVATE_KEY)
        await run.sh('cd /work; git add .; git commit -qm x; git rm -q id_rsa; git commit -qm y')
      },
      [{ kind: 'a private key', file: 'id_rsa', line: 1 }],
    ],
    [
      'packed, without a line',
      async (run) => {
        writeFileSync(join(run.folders.work, 'a.gz'), gzipSync(`x\n${KEYS['an npm token']}`))
      },
      [{ kind: 'an npm token', file: 'a.gz' }],
    ],
    [
      'in the name of a file, which is not repeated',
      async (run) => {
        writeFileSync(join(run.folders.work, GITHUB_TOKEN), GITHUB_TOKEN)
      },
      [
        { kind: 'a GitHub token', file: 'the name of a file' },
        { kind: 'a GitHub token', file: 'a file', line: 1 },
      ],
    ],
    [
      'in a message',
      (run) => run.sh(`cd /work; git commit -q --allow-empty -m 'see ${GITHUB_TOKEN}'`),
      [
        {
          kind: 'a GitHub token',
          file: expect.stringMatching(/^the message of commit /) as unknown as string,
        },
      ],
    ],
  ])('hold the work back: %s', async (_, work, expected) => {
    const g = createGitFixture()
    const run = g.run()
    const answer = await published(g, run, () => work(run))
    expect(keysOf(answer)).toEqual(expect.arrayContaining(expected))
    expect(keysOf(answer)).toHaveLength(expected.length)
    expect(JSON.stringify(answer)).not.toContain(GITHUB_TOKEN)
    expect(refsOf(g)).toEqual(['refs/heads/main'])
    expect(pullsOf(g)).toEqual([])
  })

  test('hold the work back when the agent says one', async () => {
    const g = createGitFixture()
    const run = g.run()
    const answer = await published(g, run, () => run.sh('cd /work; echo new >file'), {
      summary: `Use ${GITHUB_TOKEN}`,
    })
    expect(keysOf(answer)).toEqual([
      { kind: 'a GitHub token', file: expect.stringContaining('pull request') },
    ])
    expect(refsOf(g)).toEqual(['refs/heads/main'])
  })

  test('pass where the same file holds them on the code host already, and others there do not', async () => {
    const g = createGitFixture()
    writeFileSync(join(g.person, 'fixture.pem'), `# for tests\n${PRIVATE_KEY}`)
    git(g.person, 'add', '-A')
    git(g.person, 'commit', '-q', '-m', 'A key for tests')
    git(g.person, 'push', '-q', 'origin', 'main')
    const run = g.run()
    got(await published(g, run, () => run.sh('cd /work; sed -i 1s/tests/everybody/ fixture.pem')))
    const next = g.run()
    const answer = await published(g, next, () => next.sh(`cd /work; echo ${GITHUB_TOKEN} >>fixture.pem`))
    expect(keysOf(answer).map(({ kind }) => kind)).toEqual(['a GitHub token'])
  })

  test.each([1, 2])('are not called new when the time ends in step %p of the comparison', async (step) => {
    const g = createGitFixture()
    writeFileSync(join(g.person, 'fixture.pem'), PRIVATE_KEY)
    git(g.person, 'add', '-A')
    git(g.person, 'commit', '-q', '-m', 'A key for tests')
    git(g.person, 'push', '-q', 'origin', 'main')
    const real = createGit({ folder: passableFolder(), clock: realClock })
    const time = new AbortController()
    const bounded = withSignal(real, time.signal)
    let steps = 0
    const run: Git['run'] = (call) => {
      if (++steps === step) time.abort()
      return bounded.run(call)
    }
    const key = { kind: 'a private key', file: 'fixture.pem', mark: '', path: 'fixture.pem', hash: '' }
    const places = { folder: g.remote, staging: passableFolder(), known: ['main'] }
    expect(await dropKnownKeys({ ...bounded, run }, places, [key])).toMatchObject({
      ok: false,
      refusal: { kind: 'conflict' },
    })
  })

  test('hold the work back behind more keys than are compared with those of the code host', async () => {
    const g = createGitFixture()
    const many = `${GITHUB_TOKEN}\n`.repeat(SEARCHED_KEYS_MAX)
    writeFileSync(join(g.person, 'many.env'), many)
    git(g.person, 'add', '-A')
    git(g.person, 'commit', '-q', '-m', 'Keys for tests')
    git(g.person, 'push', '-q', 'origin', 'main')
    const run = g.run()
    const answer = await published(g, run, async () => {
      writeFileSync(join(run.folders.work, 'many.env'), `${many}${KEYS['an npm token']}\n`)
    })
    expect(keysOf(answer)).toEqual([{ kind: 'an npm token', file: 'many.env', line: SEARCHED_KEYS_MAX + 1 }])
    expect(refsOf(g)).toEqual(['refs/heads/main'])
  })

  test('repeat no part of a key in a long path', async () => {
    const g = createGitFixture()
    const run = g.run()
    const folder = join(run.folders.work, 'd'.repeat(110), FINE_GRAINED_TOKEN)
    const answer = await published(g, run, async () => {
      mkdirSync(folder, { recursive: true })
      writeFileSync(join(folder, KEYS['an npm token']), 'x')
    })
    expect(keysOf(answer)).toHaveLength(2)
    expect(JSON.stringify(answer)).not.toContain(FINE_GRAINED_TOKEN.slice(0, 30))
  })

  test('hold the work back when a message has them without its hidden characters', async () => {
    const g = createGitFixture()
    const run = g.run()
    const hidden = GITHUB_TOKEN.replace('_', '_\u200b')
    const answer = await published(g, run, () =>
      run.sh(`cd /work; git commit -q --allow-empty -m 'see ${hidden}'`),
    )
    expect(keysOf(answer).map(({ kind }) => kind)).toEqual(['a GitHub token'])
    expect(refsOf(g)).toEqual(['refs/heads/main'])
  })

  test('pass with CI definitions, which are held back', async () => {
    const g = createGitFixture()
    const run = g.run()
    got(
      await published(g, run, () =>
        run.sh(`cd /work; mkdir .circleci; echo ${GITHUB_TOKEN} >.circleci/config.yml; echo new >file`),
      ),
    )
    expect(git(g.remote, 'ls-tree', '-r', '--name-only', BRANCH)).not.toContain('.circleci')
  })

  test('are published when a person says so', async () => {
    const g = createGitFixture()
    const run = g.run()
    const job = withKey({ publishAnyway: true })
    got(await published(g, run, () => run.sh(`cd /work; echo ${GITHUB_TOKEN} >a`), { job }))
    expect(refsOf(g)).toContain(`refs/heads/${BRANCH}`)
    const { body } = JSON.parse(readFileSync(join(g.remote, '../lamps.pulls/1.json'), 'utf8'))
    expect(body).toMatch(/^\*\*Look here first:\*\* `a` line 1 \(a GitHub token\)/)
    expect(body).not.toContain(GITHUB_TOKEN)
  })
})
