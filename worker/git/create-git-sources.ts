/**
 * The whole way of a run's work, put together: `Sources` as the execution knows it.
 */
import { join } from 'node:path'
import type { Clock, CodeHost, Log, RandomSource } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { Job } from '../../protocol/frames.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { ProxySettings } from '../../providers/http/http.ts'
import { checkOut } from './checkout.ts'
import { collect } from './collect.ts'
import { beginFollowUp, pushFollowUp } from './follow-up.ts'
import { isSaid, sayOnce, type TalkPlace } from './follow-up-comment.ts'
import { type FollowUpErrand, type FollowUpParts, sealOf } from './follow-up-context.ts'
import { type Git, makeGit } from './git.ts'
import type { FollowUpSources, FollowUpWork, Sources, TellWhy } from './git-ports.ts'
import { type CacheBudget, type RepositoryCache, repositoryCache } from './mirror-cache.ts'
import { makePassable } from './mirror-folders.ts'
import { publish } from './publish.ts'
import { placeOf, pullPlacesOf } from './resolve-remote.ts'

export interface SourcesParts {
  /** Made, with `git` and `repositories` below it; the folders above it must let other users pass. */
  readonly folder: string
  readonly clock: Pick<Clock, 'after' | 'monotonic' | 'now'>
  readonly random: Pick<RandomSource, 'fraction'>
  readonly log?: Pick<Log, 'warn'>
  /** The code host that a job names. */
  readonly codehostFor: (job: Job) => Result<CodeHost>
  readonly git?: Git
  readonly gitProgram?: string
  readonly sshAgent?: string
  readonly proxies?: ProxySettings
  readonly bundleBytesMax?: number
}

const FOLLOW_UP_ID = /^[\w-]{1,100}$/
const HOUR_MS = 3_600_000
const PRUNE_EVERY_MS = HOUR_MS
const BUDGET: CacheBudget = {
  unusedMsMax: 14 * 24 * HOUR_MS,
  bytesMax: 20 * 1024 ** 3,
  sparedMs: 24 * HOUR_MS,
}

export function makeSources(parts: SourcesParts): Sources {
  const git = parts.git ?? gitOf(parts)
  const cache = repositoryCache({
    folder: join(parts.folder, 'repositories'),
    git,
    clock: parts.clock,
    random: parts.random,
  })
  return sourcesOf(parts, git, cache)
}

function sourcesOf(parts: SourcesParts, git: Git, cache: RepositoryCache): Sources {
  const { clock, random, bundleBytesMax } = parts
  const placed = (job: Job) => {
    const codehost = parts.codehostFor(job)
    return codehost.ok ? placeOf(job, codehost.value) : codehost
  }
  const prune = pruning(cache, clock, parts.log)
  const bounds = bundleBytesMax === undefined ? {} : { bundleBytesMax }
  return {
    checkOut: (job, folders, inside, signal, told) =>
      answering('checking out', async () => {
        const wanted = placed(job)
        if (!wanted.ok) return wanted
        await makePassable(parts.folder)
        const errand = { job, wanted: wanted.value, folders, inside }
        const checked = await checkOut({ git, cache }, errand, signal, told)
        prune()
        return checked
      }),
    collect: (job, folders, inside, from) =>
      answering('collecting the work', async () => {
        const wanted = placed(job)
        if (!wanted.ok) return wanted
        const errand = { job, wanted: wanted.value, folders, inside }
        return collect({ git, cache, ...bounds }, errand, from)
      }),
    publish: ({ collected, ...order }, codehost, fence, signal) =>
      answering('publishing', async () => {
        const { head } = collected
        if (head === undefined) return no('invalid', 'nothing was changed, so there is nothing to publish')
        const wanted = placeOf(order.job, codehost)
        if (!wanted.ok) return wanted
        const delivery = { ...order, head, wanted: wanted.value, codehost, fence, signal }
        return publish({ git, clock, random }, delivery)
      }),
    followUps: followUpsOf(parts, { git, cache, clock, random, ...bounds }, prune),
  }
}

function followUpsOf(parts: SourcesParts, tools: FollowUpParts, prune: () => void): FollowUpSources {
  const errandFor = (work: Omit<FollowUpWork, 'begun'>): Result<FollowUpErrand> => {
    const { pull, followUp } = work.job
    if (pull === undefined || followUp === undefined)
      return no('invalid', 'the job says neither which pull request it follows up nor as which follow-up')
    if (!FOLLOW_UP_ID.test(followUp.id)) return no('invalid', `${printable(followUp.id)} names no follow-up`)
    const codehost = parts.codehostFor(work.job)
    const places = codehost.ok ? pullPlacesOf(work.job, codehost.value) : codehost
    return places.ok
      ? yes({ ...work, number: followUp.number, seal: sealOf(followUp.id), pull, places: places.value })
      : places
  }
  return {
    begin: ({ kept, ...work }, signal) =>
      answering('checking out', async () => {
        const errand = errandFor(work)
        if (!errand.ok) return errand
        await makePassable(parts.folder)
        const begun = await beginFollowUp(tools, errand.value, kept, signal)
        prune()
        return begun
      }),
    push: ({ begun, ...work }, fence, signal) =>
      answering('publishing', async () => {
        const errand = errandFor(work)
        return errand.ok ? pushFollowUp(tools, errand.value, begun, fence, signal) : errand
      }),
    isSaid: async (job, marker, signal, told) => {
      const place = talkPlace(parts, job, told)
      return place.ok ? isSaid(tools, place.value, marker, signal) : place
    },
    say: async ({ job, told, ...words }, fence, signal) => {
      const place = talkPlace(parts, job, told)
      return place.ok ? sayOnce(tools, place.value, words, fence, signal) : place
    },
  }
}

function talkPlace({ codehostFor }: SourcesParts, job: Job, told: TellWhy | undefined): Result<TalkPlace> {
  const codehost = codehostFor(job)
  if (!codehost.ok) return codehost
  if (job.pull === undefined) return no('invalid', 'the job names no pull request')
  return yes({ codehost: codehost.value, remote: job.repo.remote, number: job.pull.number, told })
}

function gitOf({ folder, clock, gitProgram, sshAgent, proxies }: SourcesParts): Git {
  return makeGit({
    folder: join(folder, 'git'),
    clock,
    ...(gitProgram === undefined ? {} : { program: gitProgram }),
    ...(sshAgent === undefined ? {} : { sshAgent }),
    ...(proxies === undefined ? {} : { proxies }),
  })
}

/** Now and then, behind everybody's back. What fails or dies halfway is made up for the next time. */
function pruning(cache: RepositoryCache, clock: Pick<Clock, 'now'>, log: SourcesParts['log']): () => void {
  let nextAt = Number.NEGATIVE_INFINITY
  return () => {
    const now = clock.now()
    if (now < nextAt) return
    nextAt = now + PRUNE_EVERY_MS
    cache
      .prune(BUDGET)
      .catch((error) =>
        log?.warn({ err: error }, 'copies of repositories that nobody uses could not be taken away'),
      )
  }
}

/** A disk that is full or broken is no bug: what the system says becomes an answer. */
async function answering<T>(doing: string, work: () => Promise<Result<T>>): Promise<Result<T>> {
  try {
    return await work()
  } catch (error) {
    const code = codeOf(error)
    if (typeof code !== 'string') throw error
    const isFull = code === 'ENOSPC' || code === 'EDQUOT'
    const cure = isFull ? 'make room in' : 'see that the worker may use'
    return no(isFull ? 'unavailable' : 'failed', `${doing} failed (${code}); ${cure} its data directory`)
  }
}

function codeOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
}
