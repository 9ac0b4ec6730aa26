/** Finished work is kept where nothing is to be learnt about it: its execution was stopped, or only a comment is missing. */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import { no, type Result, yes } from '../../../../core/result.ts'
import type { GitSources } from '../../../../worker/git/git-ports.ts'
import { readWhole } from '../../../../worker/git/git-process.ts'
import { publishOrKeep } from '../../../../worker/run/execution/publish-work.ts'
import { unpublishedWork } from '../../../../worker/run/execution/unpublished-work.ts'
import { FinalizingTime, type PublishedWork } from '../../../../worker/run/execution/work-plan.ts'
import type { SandboxSession } from '../../../../worker/run/sandbox-session.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { got } from '../git/git-fixture.ts'

const AGAIN = { ok: false, refusal: { kind: 'forbidden', message: 'refused', failure: 'publish' } } as const

interface Circumstances {
  /** The execution is stopped while it publishes. */
  readonly isStopped?: boolean
  /** Git’s report about the checkout, whose work could not be collected. */
  readonly gitReports?: string
}

async function publishAs(
  result: Result<PublishedWork | undefined> | Promise<Result<PublishedWork | undefined>>,
  { isStopped = false, gitReports }: Circumstances = {},
) {
  const folders = { staging: tempFolder() }
  const sent: string[] = []
  // A stopped execution may not have collected its work yet.
  const bundle = isStopped || gitReports !== undefined ? undefined : { head: 'b', path: '' }
  const gitSources = { bundle: async () => yes(bundle) } as unknown as GitSources
  const work = {
    unpublished: { remote: 'o/a', branch: 'switchyard/a-1', from: { base: 'a' }, summary: 'Mended.' },
    isLeft: false,
    base: 'a',
  }
  const signal = new AbortController().signal
  const request = {
    session: {
      folders,
      log: () => {},
      run: async () => ({ code: 128, output: gitReports }),
    } as unknown as SandboxSession,
    time: new FinalizingTime(realClock),
    agentSummary: 'Mended.',
    addArtifact: () => {},
    addBundle: async (name: string) => sent.push(name) > 0,
    mayContinue: () => !isStopped,
    signal,
    afterPush: { mayContinue: () => true, signal },
  }
  writeFileSync(join(folders.staging, 'unpublished.bundle'), 'of an earlier refusal')
  const end = await publishOrKeep({ gitSources }, work, request, async () => result)
  return {
    end,
    sent,
    isKept: got(await unpublishedWork.read(folders)) !== undefined,
    hasBundle: existsSync(join(folders.staging, 'unpublished.bundle')),
  }
}

test.each<[string, Result<never>, boolean]>([
  ['that was stopped, whatever the refusal is', no('conflict', 'the lease is gone'), true],
  ['whose commits are pushed, and whose comment is missing', AGAIN, false],
])('work of an execution %s, is kept as it is', async (_, refused, isStopped) => {
  expect(await publishAs(refused, { isStopped })).toEqual({
    end: { published: refused, isUnpublished: true },
    sent: [],
    isKept: true,
    hasBundle: true,
  })
})

test.each([
  ['fatal: unable to create thread: Resource temporarily unavailable', true],
  ['fatal: cannot fork to run pack-objects', true],
  ['sh: 1: Cannot fork', true],
  ['fatal: Needed a single revision', true],
  ['error: unable to read sha1 file of lamp\nfatal: cannot create async thread', true],
  ['fatal: loose object 12 (stored in .git/objects/1/2) is corrupt', false],
])(
  'work that cannot be collected, about whose checkout git reports "%s", is kept: %p',
  async (gitReports, isKept) => {
    const { end, ...rest } = await publishAs(no('failed', 'collecting the work failed'), { gitReports })
    expect(end.isUnpublished).toBe(isKept)
    expect(rest.isKept).toBe(isKept)
  },
)

test('work that a full disk keeps from being published is published again', async () => {
  const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
  const read = readWhole(Readable.from(['x']), () => Promise.reject(full))
  for (const publishing of [
    Promise.reject(full),
    read.then((ended) => (ended.ok ? yes(undefined) : ended)),
  ]) {
    const { end, isKept } = await publishAs(publishing, { gitReports: 'fatal: No space left on device' })
    expect(end.published).toMatchObject({ refusal: { kind: 'unavailable', failure: 'publish' } })
    expect([end.isUnpublished, isKept]).toEqual([true, true])
  }
})

test('published work leaves neither a note nor a bundle beside its sandbox', async () => {
  const published = yes({ branch: 'switchyard/a-1', prUrl: 'https://code/1' })
  expect(await publishAs(published)).toMatchObject({
    end: { isUnpublished: false },
    isKept: false,
    hasBundle: false,
  })
})
