/**
 * `createGitSources` implements `GitSources`: it resolves a job's repository and connects checkout, collecting,
 * publishing and follow-ups. Errors of the disk become refusals here.
 */
import { join } from 'node:path'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import type { CodeHost } from '../../core/ports/code-host.ts'
import type { Log } from '../../core/ports/log.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { Job } from '../../protocol/frames.ts'
import { codeOf, isDiskFull } from '../../protocol/message-of.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { ProxySettings } from '../../providers/http/http-types.ts'
import { keysInText, refuseKeys } from '../secrets/key-forms.ts'
import { createRunSecretSearch, explainFoundSecret, type OwnSecrets } from '../secrets/run-secrets.ts'
import { checkOut } from './checkout/checkout.ts'
import { bundleWork } from './checkout/run-repository.ts'
import {
  beginFollowUp,
  type CommentTarget,
  hasFollowUpComment,
  postCommentOnce,
} from './follow-up/follow-up.ts'
import { type FollowUpContext, type FollowUpGitPorts, sealOf } from './follow-up/follow-up-context.ts'
import { pushFollowUp } from './follow-up/follow-up-push.ts'
import { createGit, type Git, withSignal } from './git.ts'
import { refusedCodeHostToken, unreadableRemote } from './git-errors.ts'
import type { FollowUpPushRequest, FollowUpSources, GitSources, LogToRun } from './git-ports.ts'
import { makePassable } from './mirror/bare-repository.ts'
import { MirrorCache, type MirrorCacheLimits } from './mirror/mirror-cache.ts'
import { publish } from './publish/publish.ts'
import type { RemotePolicy } from './remote-policy.ts'
import { resolvePullRepositories, resolveRepository } from './resolve-remote.ts'
import { collect } from './work/collect.ts'

export interface GitSourcesOptions {
  /** Created here, with `git` and `repositories` below it; other users must be able to enter its parent folders. */
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
  /** Absent: only hosts at public addresses. */
  readonly policy?: Pick<RemotePolicy, 'check'>
  readonly bundleBytesMax?: number
  readonly unpackedBytesMax?: number
  readonly untrustedMemoryMib?: number
  readonly ownSecrets?: OwnSecrets
}

const FOLLOW_UP_ID = /^[\w-]{1,100}$/
const COMMENT_TEXT = 'the text for the pull request’s comment'
const HOUR_MS = 3_600_000
const PRUNE_EVERY_MS = HOUR_MS
const CACHE_LIMITS: MirrorCacheLimits = {
  unusedMsMax: 14 * 24 * HOUR_MS,
  bytesMax: 20 * 1024 ** 3,
  protectedMs: 24 * HOUR_MS,
}

export function createGitSources(options: GitSourcesOptions): GitSources {
  const git = options.git ?? createGitFor(options)
  const cache = new MirrorCache({
    folder: join(options.folder, 'repositories'),
    git,
    clock: options.clock,
    random: options.random,
  })
  return buildSources(options, git, cache)
}

function buildSources(options: GitSourcesOptions, git: Git, cache: MirrorCache): GitSources {
  const { clock, random, bundleBytesMax, unpackedBytesMax, ownSecrets } = options
  const repositoryFor = (job: Job) => {
    const codehost = requireCodeHost(options, job)
    return codehost.ok ? resolveRepository(job, codehost.value) : codehost
  }
  const prune = createPruner(cache, clock, options.log)
  const more = {
    ...(bundleBytesMax === undefined ? {} : { bundleBytesMax }),
    ...(unpackedBytesMax === undefined ? {} : { unpackedBytesMax }),
    ...(ownSecrets === undefined ? {} : { ownSecrets }),
  }
  return {
    checkOut: (job, folders, sandbox, signal, logToRun, onTurn) =>
      withDiskErrors('checking out', async () => {
        const repository = repositoryFor(job)
        if (!repository.ok) return repository
        await makePassable(options.folder)
        const workspace = { job, repository: repository.value, folders, sandbox }
        const checked = await checkOut({ git, cache }, workspace, signal, logToRun, onTurn)
        prune()
        return checked
      }),
    collect: (job, folders, sandbox, from, signal) =>
      withDiskErrors('collecting the work', async () => {
        const repository = repositoryFor(job)
        if (!repository.ok) return repository
        const workspace = { job, repository: repository.value, folders, sandbox }
        return collect({ git: withSignal(git, signal), cache, ...more }, workspace, from, signal)
      }),
    publish: ({ collected, ...order }, codehost, mayContinue, signal) =>
      withDiskErrors('publishing', async () => {
        const { head, heldBack, diff, keys } = collected
        if (head === undefined) return no('invalid', 'nothing was changed, so there is nothing to publish')
        const repository = resolveRepository(order.job, codehost)
        if (!repository.ok) return repository
        const held = heldBack === undefined ? {} : { heldBack }
        const publishContext = {
          ...order,
          ...held,
          readFirst: diff.readFirst,
          keys,
          head,
          repository: repository.value,
          codehost,
          mayContinue,
          signal,
        }
        return publish({ git, clock, random, ...more }, publishContext)
      }),
    bundle: ({ staging }, work) =>
      withDiskErrors('bundling the work', () => bundleWork(git, { staging, ...work })),
    followUps: buildFollowUpSources(options, { git, cache, clock, random, ...more }, prune),
  }
}

function buildFollowUpSources(
  options: GitSourcesOptions,
  ports: FollowUpGitPorts,
  prune: () => void,
): FollowUpSources {
  const contextFor = (work: Omit<FollowUpPushRequest, 'start'>): Result<FollowUpContext> => {
    const { pull, followUp } = work.job
    if (pull === undefined || followUp === undefined)
      return no('invalid', 'the job says neither which pull request it follows up nor as which follow-up')
    if (!FOLLOW_UP_ID.test(followUp.id)) return no('invalid', `${printable(followUp.id)} names no follow-up`)
    const codehost = requireCodeHost(options, work.job)
    const repositories = codehost.ok ? resolvePullRepositories(work.job, codehost.value) : codehost
    return repositories.ok
      ? yes({
          ...work,
          number: followUp.number,
          seal: sealOf(followUp.id),
          pull,
          repositories: repositories.value,
        })
      : repositories
  }
  return {
    begin: ({ isRetained, ...work }, signal) =>
      withDiskErrors('checking out', async () => {
        const context = contextFor(work)
        if (!context.ok) return context
        await makePassable(options.folder)
        const start = await beginFollowUp(ports, context.value, isRetained, signal)
        prune()
        return start
      }),
    push: (work, mayContinue, signal) =>
      withDiskErrors('publishing', async () => {
        const context = contextFor(work)
        return context.ok ? pushFollowUp(ports, context.value, work, mayContinue, signal) : context
      }),
    hasComment: async (job, marker, signal, logToRun) => {
      const target = commentTarget(options, job, logToRun)
      if (!target.ok) return target
      const found = await hasFollowUpComment(ports, target.value, marker, signal)
      if (found.ok || found.refusal.kind !== 'unauthorized' || job.codehost === undefined) return found
      return refusedCodeHostToken(job.codehost.driver, found)
    },
    postComment: async ({ job, logToRun, ...words }, mayContinue, signal) => {
      const target = commentTarget(options, job, logToRun)
      if (!target.ok) return target
      const searched = searchComment(options, job, words.body)
      return searched.ok ? postCommentOnce(ports, target.value, words, mayContinue, signal) : searched
    },
  }
}

/** Refused when the configuration of the code host is wrong, such as codehost.apiUrl. */
function requireCodeHost({ codehostFor }: GitSourcesOptions, job: Job): Result<CodeHost> {
  const codehost = codehostFor(job)
  return codehost.ok ? codehost : unreadableRemote(job.repo.remote, codehost.refusal.message)
}

function commentTarget(
  options: GitSourcesOptions,
  job: Job,
  logToRun: LogToRun | undefined,
): Result<CommentTarget> {
  const codehost = requireCodeHost(options, job)
  if (!codehost.ok) return codehost
  if (job.pull === undefined) return no('invalid', 'the job names no pull request')
  const { repo, pull } = job
  return yes({ codehost: codehost.value, remote: repo.remote, number: pull.number, job, logToRun })
}

function searchComment({ ownSecrets }: GitSourcesOptions, job: Job, body: string): Result<void> {
  const search = createRunSecretSearch(job, ownSecrets)
  const secret = search.findIn(body)
  if (secret === undefined) return refuseKeys(job, keysInText(body, COMMENT_TEXT))
  return no('invalid', explainFoundSecret(search, secret, COMMENT_TEXT, COMMENT_TEXT))
}

function createGitFor({
  folder,
  clock,
  gitProgram,
  sshAgent,
  proxies,
  policy,
  untrustedMemoryMib,
}: GitSourcesOptions): Git {
  return createGit({
    folder: join(folder, 'git'),
    clock,
    ...(gitProgram === undefined ? {} : { program: gitProgram }),
    ...(sshAgent === undefined ? {} : { sshAgent }),
    ...(proxies === undefined ? {} : { proxies }),
    ...(policy === undefined ? {} : { policy }),
    ...(untrustedMemoryMib === undefined ? {} : { untrustedMemoryMib }),
  })
}

/** The returned function prunes the mirrors in the background, at most once an hour; the next call repairs a failure. */
function createPruner(
  cache: MirrorCache,
  clock: Pick<Clock, 'now'>,
  log: GitSourcesOptions['log'],
): () => void {
  let nextAt = Number.NEGATIVE_INFINITY
  return () => {
    const now = clock.now()
    if (now < nextAt) return
    nextAt = now + PRUNE_EVERY_MS
    cache
      .prune(CACHE_LIMITS)
      .catch((error) => log?.warn({ err: error }, 'unused mirrors of repositories could not be deleted'))
  }
}

/** Turns errors of the file system into refusals, because a full or broken disk is not a bug. */
async function withDiskErrors<T>(activity: string, work: () => Promise<Result<T>>): Promise<Result<T>> {
  try {
    return await work()
  } catch (error) {
    const code = codeOf(error)
    if (typeof code !== 'string') throw error
    const isFull = isDiskFull(error)
    const hint = isFull ? 'make room in' : 'see that the worker may use'
    return no(isFull ? 'unavailable' : 'failed', `${activity} failed (${code}); ${hint} its data directory`)
  }
}
