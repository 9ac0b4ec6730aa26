/** Local code host for tests: a folder with a real repository, a person's git configuration and pull request files. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { NewPullRequest } from '../../../../core/ports/code-host.ts'
import type { KeptPull } from '../../../../protocol/pulls.ts'
import { createLocalCodeHost } from '../../../../providers/codehost/local/code-host.ts'
import { createLocalPullHost } from '../../../../providers/codehost/local/pulls.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { createRecordingLog, type RecordingLog } from '../../../support/recording-log.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { type BenchOrder, git, granted, makeBare, type PullBench, pushTo } from './pull-suite.ts'

export const REMOTE = 'ada/lamps'
export const ME = 'Pat Person'

export interface LocalBench extends PullBench {
  readonly path: string
  readonly clock: ManualClock
  readonly home: string
  readonly log: RecordingLog
  /** Path of a pull request's file. */
  readonly fileOf: (number: number) => string
  readonly edit: (number: number, change: (pull: KeptPull) => object) => void
}

export async function localBench(): Promise<LocalBench> {
  const path = join(tempFolder(), 'code hosts')
  const home = join(tempFolder(), 'home')
  mkdirSync(join(path, 'ada'), { recursive: true })
  mkdirSync(home)
  writeFileSync(join(home, '.gitconfig'), `[user]\n\tname = ${ME}\n\temail = pat@example.org\n`)
  const bare = join(path, `${REMOTE}.git`)
  await makeBare(bare)
  const clock = new ManualClock()
  const log = createRecordingLog()
  const fileOf = (number: number) => join(path, `${REMOTE}.pulls`, `${number}.json`)
  const edit = (number: number, change: (pull: KeptPull) => object) => {
    const pull = JSON.parse(readFileSync(fileOf(number), 'utf8'))
    writeFileSync(fileOf(number), JSON.stringify({ ...pull, ...change(pull) }))
  }
  const instant = () => new Date(clock.now()).toISOString()
  return {
    path,
    clock,
    home,
    log,
    fileOf,
    edit,
    host: createLocalPullHost({ path, clock, log, home: { HOME: home } }),
    remote: REMOTE,
    bare,
    push: (branch, commit) => pushTo(bare, branch, commit, Math.floor(clock.now() / 1000)),
    drop: async (branch) => void (await git(bare, ['update-ref', '-d', `refs/heads/${branch}`])),
    open: async (order) => {
      const { number } = granted(await createLocalCodeHost({ path, clock }).openPull(pullOrder(order)))
      if (order.own === true) edit(number, () => ({ author: ME }))
      return number
    },
    somebody: {
      comment: async (number, body) =>
        edit(number, ({ comments = [] }) => ({
          comments: [...comments, { id: 'x1', author: 'Bo', body, createdAt: instant(), url: 'file:///x' }],
        })),
      review: async (number, state, body) =>
        edit(number, ({ reviews = [] }) => ({
          reviews: [...reviews, { id: 'x2', author: 'Bo', state, body, submittedAt: instant() }],
        })),
      thread: async (number, { path: file, line }, body) =>
        edit(number, ({ threads = [] }) => ({
          threads: [
            ...threads,
            {
              id: `t${number}`,
              resolved: false,
              path: file,
              line,
              diffHunk: '@@ -0,0 +1 @@\n+one',
              comments: [{ id: `x${number}3`, author: 'Bo', body, createdAt: instant(), url: 'file:///x' }],
            },
          ],
        })),
    },
    later: async () => clock.jumpWallClock(2_000),
    close: async () => {},
  }
}

function pullOrder({
  head,
  base = 'main',
  title = 'A title',
  body = '',
  draft = false,
}: BenchOrder): NewPullRequest {
  return { remote: REMOTE, head, base, title, body, draft }
}
