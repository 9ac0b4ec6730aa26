/** An agent whose commits would close issues and notify people: real git, and what is pushed does neither. */
import { describe, expect, test } from '@jest/globals'
import type { Job } from '../../../../protocol/frames.ts'
import { aJob, createGitFixture, git, got, never, refusalOf } from './git-fixture.ts'

const BRANCH = 'switchyard/eng-12'
const g = createGitFixture()

async function publish(script: string, job: Job = aJob()) {
  const run = g.run()
  const { folders, sandbox } = run
  const from = got(await g.sources.checkOut(job, folders, sandbox, never))
  await run.sh(`cd /work; set -e; ${script}`)
  const head = await run.sh('git -C /work rev-parse HEAD')
  const collected = await g.sources.collect(job, folders, sandbox, from)
  if (!collected.ok) return { head, collected }
  const request = { job, leaseId: 'l1', folders, from, collected: collected.value, summary: 'Done.' }
  const published = await g.sources.publish(request, g.codehost, () => true, never)
  return { head, collected, published: got(published) }
}

const pushed = (format: string): string =>
  git(
    g.remote,
    'log',
    '--topo-order',
    '--reverse',
    '--first-parent',
    '-m',
    '--no-patch',
    `--format=${format}`,
    `main..${BRANCH}`,
  )
    .replaceAll('\u200b', '·')
    .trim()

const AUTHOR =
  'GIT_AUTHOR_DATE="2026-01-02T03:04:05+0100" git -c user.name=Ada -c user.email=ada@example.com commit -q'

describe('what is pushed', () => {
  test('closes no issue and notifies nobody, in any of its commits; everything else stays', async () => {
    const { published } = await publish(
      `echo 1 >a; git add a; ${AUTHOR} -m "Add a, fixes #3" -m "Thanks @octocat"
       git checkout -qb side HEAD~1; echo 2 >b; git add b; ${AUTHOR} -m "Add b"
       git checkout -q ${BRANCH}; git -c user.name=A -c user.email=a@b merge -q --no-ff -m "Merge: closes https://github.com/o/r/issues/4" side
       echo 3 >c; git add c; ${AUTHOR} --allow-empty-message -m ""`,
    )
    expect(git(g.remote, 'rev-parse', BRANCH)).toBe(published?.pushed)
    expect(
      pushed('%s|%b')
        .split('\n')
        .filter((line) => line !== ''),
    ).toEqual(['Add a, fixes ·#3|Thanks @·octocat', 'Merge: closes ·https://github.com/o/r/issues/4|', '|'])
    expect(pushed('%an %ae %aI').split('\n').slice(0, 1)).toEqual([
      'Ada ada@example.com 2026-01-02T03:04:05+01:00',
    ])
    expect(git(g.remote, 'ls-tree', '--name-only', BRANCH).split('\n')).toEqual(
      expect.arrayContaining(['a', 'b', 'c']),
    )
    expect(git(g.remote, 'rev-list', '--count', '--merges', `main..${BRANCH}`)).toBe('1')
  })

  test('has its own commits where no message has an effect', async () => {
    const { head, published } = await publish(`echo 4 >d; git add d; ${AUTHOR} -m "Add d, see #3"`)
    expect(published?.pushed).toBe(String(head).trim())
  })

  test('is nothing when a message is longer than anybody reads', async () => {
    const { collected } = await publish(
      `echo 5 >e; git add e; head -c 1100000 /dev/zero | tr '\\0' x >/tmp/m; ${AUTHOR} -F /tmp/m`,
    )
    expect(refusalOf(collected)).toMatch(/message.*1048576/)
  })
})
