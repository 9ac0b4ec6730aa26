/** The artifact upload module copies the artifacts of completed runs to the bucket. */

import type { PullReference, PullRequestApi } from '../../core/ports/code-host.ts'
import { no, type RefusalKind, type Result, yes } from '../../core/result.ts'
import {
  artifactComment,
  artifactKey,
  artifactMarker,
  artifactUrl,
  isUploadConfigured,
  type PublishedArtifact,
} from '../../core/run/artifact-comment.ts'
import type { Run } from '../../protocol/run.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import { DurableTasks } from '../runtime/durable-tasks.ts'
import { observeKind } from '../runtime/module.ts'
import { RUN } from './run.machine.ts'
import type { RunEventLog } from './run-event-log.ts'
import type { RunPulls } from './run-pulls.ts'

export const artifactUploadModule = defineHostModule({
  name: 'artifactUpload',
  create(context, { runRecords, runs, jobs }) {
    const upload = new ArtifactUpload(context, runRecords.eventLog, jobs.runPulls)
    return {
      participants: [upload],
      onStateChange: [
        observeKind(RUN, ({ after, over }) => {
          if (over) upload.onRunEnded(after.context.run)
        }),
      ],
      onViewChange(change) {
        const run = change.view === 'pull confirmed' ? runs.latest(change.key) : undefined
        if (run !== undefined) upload.onRunEnded(run)
      },
      start: () => upload.start(),
      stop: () => upload.stop(),
      sizes: () => ({ artifactUploads: upload.size }),
    }
  },
})

interface ArtifactUploadTask {
  readonly finishedAt: string
}

const ATTEMPTS_MAX = 12
/** Refusals that do not count as attempts: before the upload, waiting for the code host costs nothing. */
const UNREACHABLE_KINDS = new Set<RefusalKind>(['unavailable', 'unauthorized'])
const UPLOADS_MAX = 200
const UNCONFIRMED = no('unavailable', 'the code host has not confirmed its pull request')

/**
 * ArtifactUpload copies the artifacts of a run that ended with a pull request to the bucket, and links them in a
 * comment on the pull request.
 *
 * Repeating a task is harmless: an upload replaces the object, and the comment is found again by its marker. A failure
 * is reported in the run's log and holds up nothing else.
 */
class ArtifactUpload extends DurableTasks<ArtifactUploadTask> {
  readonly #context: HostContext
  readonly #eventLog: RunEventLog
  readonly #runPulls: RunPulls

  constructor(context: HostContext, eventLog: RunEventLog, runPulls: RunPulls) {
    super({
      ...context,
      keyValues: context.store.database.keyValues,
      prefix: 'evidence/',
      attemptsMax: ATTEMPTS_MAX,
      unreachableKinds: UNREACHABLE_KINDS,
      attempt: (runId, task) => this.#uploadArtifacts(runId, task),
      onGivenUp: (runId, _, reason) =>
        this.#appendToRunLog(runId, `its artifacts are not in the bucket: ${reason}`),
    })
    this.#context = context
    this.#eventLog = eventLog
    this.#runPulls = runPulls
  }

  #appendToRunLog(runId: string, text: string): void {
    this.#eventLog.appendText(runId, this.#context.instant(), text)
  }

  /** Adds a task when the ended run has artifacts and a pull request, and a bucket is configured. */
  onRunEnded(run: Run): void {
    const { prUrl, result, finishedAt, status } = run
    if (status !== 'completed' || prUrl === undefined || finishedAt === undefined) return
    if ((result?.artifacts.length ?? 0) === 0 || !isUploadConfigured(this.#context.config().storage)) return
    this.add(run.id, { finishedAt })
  }

  async #uploadArtifacts(runId: string, { finishedAt }: ArtifactUploadTask): Promise<Result<void>> {
    const run = this.#context.store.database.runs.get(runId)
    // The run was retried or followed up since then, and adds a new task when it ends.
    if (run === undefined || run.finishedAt !== finishedAt || run.prUrl === undefined) return yes(undefined)
    const pulls = this.#context.pullRequestApi()
    if (!pulls.ok) return pulls
    // The code host may confirm the pull request later; a pull request that is not the run's loses its address.
    if (run.pull?.confirmed === false) return UNCONFIRMED
    const found = this.#runPulls.confirmedAt(run, pulls.value)
    if (!found.ok) return found
    const place = found.value
    // Ask in the background: the client then skips a token that the code host has refused before.
    const states = await pulls.value.states(place.remote, [place.number], 'background')
    if (!states.ok) return states
    // Ask before the upload: otherwise each attempt would upload everything again while the code host is unreachable.
    const hasComment = await this.#hasComment(pulls.value, place, run)
    if (!hasComment.ok || hasComment.value) return hasComment.ok ? yes(undefined) : hasComment
    const ready = await this.#checkBucket()
    if (!ready.ok) return ready
    const items = await this.#uploadAll(run)
    if (!items.ok || items.value.length === 0) return items.ok ? yes(undefined) : items
    return asCountedAttempt(await pulls.value.comment(place, artifactComment(run, items.value)))
  }

  async #hasComment(pulls: PullRequestApi, place: PullReference, run: Run): Promise<Result<boolean>> {
    const detail = await pulls.detail(place)
    if (!detail.ok) return detail
    const marker = artifactMarker(run)
    return yes(detail.value.conversation.comments.some(({ body }) => body.includes(marker)))
  }

  async #checkBucket(): Promise<Result<void>> {
    const { installed, loggedIn } = await this.#context.bucket.status(this.#context.config().storage.token)
    if (!installed) return no('invalid', 'the command of the bucket is not installed on the host')
    if (!loggedIn) return no('invalid', 'nobody is logged in to the bucket; connect storage')
    return yes(undefined)
  }

  async #uploadAll(run: Run): Promise<Result<PublishedArtifact[]>> {
    const items: PublishedArtifact[] = []
    for (const name of (run.result?.artifacts ?? []).slice(0, UPLOADS_MAX)) {
      const uploaded = await this.#uploadOne(run, name)
      if (!uploaded.ok && uploaded.refusal.kind !== 'invalid') return no('failed', uploaded.refusal.message)
      if (uploaded.ok) items.push(uploaded.value)
      else
        this.#appendToRunLog(run.id, `the artifact ${name} is not in the bucket: ${uploaded.refusal.message}`)
    }
    return yes(items)
  }

  async #uploadOne(run: Run, name: string): Promise<Result<PublishedArtifact>> {
    const { store, bucket, config } = this.#context
    const { storage } = config()
    const found = await store.artifacts.find(run.id, name)
    if (found.is !== 'file') return no('invalid', 'it is not there any more')
    const { size, contentType } = found
    const key = artifactKey(run, name)
    const sent = await bucket.upload({
      bucket: storage.bucket,
      key,
      contentType,
      size,
      ...(storage.token === undefined ? {} : { token: storage.token }),
      read: () => found.read(),
    })
    if (!sent.ok) return sent
    return yes({
      name,
      url: artifactUrl(storage.publicBaseUrl, key),
      isImage: contentType.startsWith('image/'),
    })
  }
}

/** Makes a refusal after the upload count as an attempt, because the next one uploads everything again. */
function asCountedAttempt<T>(result: Result<T>): Result<T> {
  return result.ok || !UNREACHABLE_KINDS.has(result.refusal.kind)
    ? result
    : no('failed', result.refusal.message)
}
