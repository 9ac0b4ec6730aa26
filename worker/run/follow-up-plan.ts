/**
 * A follow-up's course: the run's sandbox once more, where it is still here, else a new one; the pull request's branch
 * on the newest base; an agent only when there is something to resolve or to answer; one push, one comment.
 *
 * It may be begun again from its beginning, here or elsewhere, wherever it was cut off: what is visible of it is asked
 * for first. The comment comes last, so a follow-up whose comment is there is done.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ExecutionRequest } from '../../core/daemon/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { followUpMarker } from '../../core/run/follow-up.ts'
import type { Job, JobFollowUp, JobPull } from '../../protocol/frames.ts'
import { openAgentFiles } from '../agents/agent-files.ts'
import type { Begun, FollowedUp } from '../git/git-ports.ts'
import type { HandsParts } from './dependencies.ts'
import { followUpBody, followUpText } from './follow-up-comment.ts'
import { followUpPrompt, wishesOf } from './follow-up-prompt.ts'
import { OUT } from './sandbox-paths.ts'
import type { Room } from './sandbox-session.ts'
import type { Sandboxes, SandboxFolders } from './sandboxes.ts'
import type { Course, Errand, Publishing, Shown } from './work-plan.ts'

/** `said`: an earlier attempt came to its very end. */
type Stage =
  | { readonly is: 'said' }
  | { readonly is: 'begun'; readonly begun: Begun; readonly hadWords: boolean }

/** Nobody is there to write into an editor. */
const NO_EDITOR = { GIT_EDITOR: 'true', GIT_SEQUENCE_EDITOR: 'true' }
/** What an earlier execution left for people has been told already. */
const EMPTY_OUT = `chmod -R u+rwX ${OUT}; find ${OUT} -mindepth 1 -delete; mkdir -p ${OUT}/artifacts`
/** The worker's own, beside the repository that is pushed from. */
const WORDS = 'follow-up.json'

export class FollowUp implements Course {
  readonly #hands: HandsParts
  readonly #sandboxes: Sandboxes
  readonly #job: Job
  readonly #pull: JobPull
  readonly #followUp: JobFollowUp
  #isKept = false
  #resume: string | undefined
  #stage: Stage | undefined

  constructor(hands: HandsParts, sandboxes: Sandboxes, { job }: ExecutionRequest) {
    const { pull, followUp } = job
    if (pull === undefined || followUp === undefined) throw new Error('a follow-up of no pull request')
    this.#hands = hands
    this.#sandboxes = sandboxes
    this.#job = job
    this.#pull = pull
    this.#followUp = followUp
  }

  async folders(): Promise<SandboxFolders & { readonly number: number }> {
    const { run, sandbox } = this.#job
    const kept = await this.#sandboxes.kept(run.id)
    this.#isKept = kept !== undefined
    return kept ?? this.#sandboxes.create(run.id, sandbox?.diskQuotaGib)
  }

  async checkOut(room: Room, signal: AbortSignal): Promise<Result<void>> {
    const { followUps } = this.#hands.sources
    const told = (line: string) => room.say(line)
    const said = await followUps.isSaid(this.#job, followUpMarker(this.#followUp.id), signal, told)
    if (!said.ok) return said
    if (said.value) {
      this.#stage = { is: 'said' }
      return yes(undefined)
    }
    if (this.#isKept) await room.run(['/bin/sh', '-c', EMPTY_OUT])
    const begun = await followUps.begin(
      { job: this.#job, folders: room.folders, inside: room, kept: this.#isKept, told },
      signal,
    )
    if (!begun.ok) return begun
    const hadWords = (await this.#words(room.folders)) !== undefined
    this.#stage = { is: 'begun', begun: begun.value, hadWords }
    this.#resume = await this.#session(room.folders)
    this.#tell(room, begun.value)
    return yes(undefined)
  }

  errand(): Errand | undefined {
    if (this.#stage?.is !== 'begun') return undefined
    const { begun } = this.#stage
    const wishes = wishesOf(this.#pull)
    const isUnsure = begun.state === 'conflict' || begun.merges !== undefined
    const isNeeded = isUnsure || (begun.state !== 'pushed' && wishes.length > 0)
    if (!isNeeded) return undefined
    const isResumed = this.#resume !== undefined
    return {
      prompt: followUpPrompt({ job: this.#job, pull: this.#pull, begun, wishes, isResumed }),
      environment: NO_EDITOR,
      ...(this.#resume === undefined ? {} : { resume: this.#resume }),
    }
  }

  /** A tree in conflict may keep it from succeeding, and the agent sees to that. */
  setup(): 'must' | 'may' | 'not' {
    const begun = this.#stage?.is === 'begun' ? this.#stage.begun : undefined
    if (begun?.isFresh !== true) return 'not'
    return begun.state === 'conflict' ? 'may' : 'must'
  }

  isKept(): boolean {
    return this.#isKept
  }

  holdsMore(): boolean {
    return this.#stage?.is === 'begun' && this.#stage.begun.kept.length > 0
  }

  async publish(order: Publishing): Promise<Result<Shown | undefined>> {
    const stage = this.#stage
    if (stage === undefined) return no('failed', 'the follow-up was not begun')
    if (stage.is === 'said')
      return yes(this.#shown('An earlier attempt of this follow-up was interrupted at its very end.'))
    const { begun, hadWords } = stage
    const said = begun.state === 'pushed' ? ((await this.#words(order.room.folders)) ?? '') : order.said
    const followed = await this.#pushed(order, begun)
    if (!followed.ok) return followed
    if (followed.value.diff !== undefined) order.room.say(followed.value.diff.text)
    const text = followUpText({ pull: this.#pull, begun, followed: followed.value, said })
    const { id } = this.#followUp
    const told = (line: string) => order.room.say(line)
    const marker = followUpMarker(id)
    const isTakenOver = begun.state === 'pushed' || (hadWords && followed.value.pushed === undefined)
    const words = { job: this.#job, marker, body: followUpBody(text, id), isTakenOver, told }
    const leave = followed.value.pushed === undefined ? order : order.toEnd
    const posted = await this.#hands.sources.followUps.say(words, leave.fence, leave.signal)
    if (!posted.ok)
      return no(posted.refusal.kind, `the follow-up’s comment could not be posted: ${posted.refusal.message}`)
    return yes(this.#shown(text, followed.value.pushed))
  }

  // ---- steps -----------------------------------------------------------------------------------------------------

  async #pushed({ room, said, fence, signal }: Publishing, begun: Begun): Promise<Result<FollowedUp>> {
    if (begun.state === 'pushed') return yes({ pushed: begun.head, isContained: false, diff: undefined })
    await this.#keepWords(room.folders, said)
    const told = (line: string) => room.say(line)
    const work = { job: this.#job, folders: room.folders, inside: room, begun, told }
    return this.#hands.sources.followUps.push(work, fence, signal)
  }

  #shown(summary: string, pushed?: string): Shown {
    const { url, headBranch } = this.#pull
    const { prState } = this.#job.run
    return {
      prUrl: url,
      branch: headBranch,
      summary,
      ...(prState === 'open' || prState === 'draft' ? { prState } : {}),
      ...(pushed === undefined ? {} : { pushed }),
    }
  }

  #tell(room: Room, { state, base, files, kept }: Begun): void {
    const { headBranch, baseBranch } = this.#pull
    const onto = `${headBranch} onto ${baseBranch} at ${base.slice(0, 12)}`
    const lines = {
      pushed: `an earlier attempt of this follow-up has pushed ${headBranch}; only its comment is missing`,
      level: `${headBranch} holds the newest ${baseBranch} already`,
      rebased: `rebased ${onto}, without conflicts`,
      conflict: `rebasing ${onto} stopped at conflicts in ${files.join(', ')}`,
    } as const
    room.say(lines[state])
    if (kept.length > 0)
      room.say(`what the sandbox held and nobody else has is kept inside: ${kept.join(', ')}`)
    if (this.errand() === undefined) room.say('there is nothing for an agent to do')
  }

  // ---- the agent's session -----------------------------------------------------------------------------------------

  /** One that can go on: in this sandbox, of the agent that works now, and with a transcript. */
  async #session({ home }: SandboxFolders): Promise<string | undefined> {
    const record = this.#isKept ? this.#sandboxes.get(this.#job.run.id) : undefined
    const { provider } = this.#job.agent
    const session = record?.sessionId ?? record?.agent?.session
    if (session === undefined || provider !== 'agentA' || record?.agent?.provider !== provider)
      return undefined
    try {
      const usage = await this.#hands.drivers[provider].readUsage(
        openAgentFiles(home, () => true),
        session,
      )
      return usage.length === 0 ? undefined : session
    } catch (error) {
      this.#hands.log.warn(
        { err: error },
        'the session of an earlier execution cannot be read; a new one begins',
      )
      return undefined
    }
  }

  // ---- the agent's words -------------------------------------------------------------------------------------------

  /** They outlive a crash between the push and the comment, as long as it goes on here. */
  async #keepWords({ desk }: SandboxFolders, said: string): Promise<void> {
    await writeFile(join(desk, WORDS), JSON.stringify({ id: this.#followUp.id, said }), { mode: 0o600 })
  }

  /** undefined: no attempt of this follow-up has come to its end here. */
  async #words({ desk }: SandboxFolders): Promise<string | undefined> {
    try {
      // Ours: no agent ever sees this folder.
      const { id, said } = JSON.parse(await readFile(join(desk, WORDS), 'utf8')) as {
        id: string
        said: string
      }
      return id === this.#followUp.id ? said : undefined
    } catch {
      return undefined
    }
  }
}
