/** The root module restores actors, opens and closes the listeners, and starts the others once the host serves. */
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { no, type Refusal, type Result, yes } from '../../core/result.ts'
import { messageOf } from '../../protocol/message-of.ts'
import { defineHostModule, type HostChange } from '../host-context.ts'
import type { RestoreReport } from '../runtime/actor-system.ts'
import { effectHandlers, type ModuleList, observeKind } from '../runtime/module.ts'
import { ROOT, type RootEffect, type RootEvent, rootKind } from './root.machine.ts'

export interface RootModulePorts {
  readonly listeners: Listeners
  readonly lifecycle: HostLifecycle
  readonly modules: () => ModuleList<HostChange>
}

export const createRootModule = ({ listeners, lifecycle, modules }: RootModulePorts) =>
  defineHostModule({
    name: 'root',
    kinds: [rootKind],
    create({ system, store, log, timers }) {
      let stopWatchingFile: Cancel = () => {}
      const onFileTouched = () => modules().views.settings.onFileTouched()
      return {
        onStateChange: [
          observeKind(ROOT, ({ after }) => {
            if (after.value !== 'serving') return
            timers.start()
            modules().start()
          }),
        ],
        effects: effectHandlers<RootEffect>({
          root: createRootEffects({
            restore() {
              const restored = system.restore()
              for (const problem of restored.ok ? restored.value.damaged : [])
                log.error({ problem }, 'could not read a stored record; it stays on disk untouched')
              if (restored.ok) modules().onRestored()
              return restored
            },
            async openListeners() {
              const opened = await listeners.open()
              if (!opened.ok || lifecycle.isFinished) return opened
              stopWatchingFile = store.config.watch(onFileTouched)
              // The file may have been edited between being read at start and being watched.
              onFileTouched()
              return opened
            },
            async closeListeners() {
              stopWatchingFile()
              // The host's own worker still reports what it publishes in its last seconds.
              await modules()
                .drain()
                .finally(() => listeners.close())
            },
            finish: (exitCode, reason) => lifecycle.finish(exitCode, reason),
            log,
            sendEvent: (event) => void system.send(ROOT, ROOT, event),
          }),
        }),
        stop() {
          stopWatchingFile()
          timers.stop()
        },
      }
    },
  })

// ---- the end of the host -----------------------------------------------------------------------------------------

/** A stored record was written by a newer version (EX_DATAERR). */
const EXIT_STORE_TOO_NEW = 65
/** A listener could not be opened (EX_UNAVAILABLE). */
const EXIT_LISTENERS = 69
/** A bug or a disk failure (EX_SOFTWARE). */
const EXIT_BROKEN = 70
/** Another process has taken the data directory over (EX_TEMPFAIL). */
export const EXIT_IN_USE = 75
/** A listener's configuration is invalid, for example its certificate (EX_CONFIG). */
const EXIT_CONFIG = 78

interface HostLifecyclePorts {
  readonly clock: Clock
  readonly log: Log
  readonly sendToRoot: (event: RootEvent) => void
  readonly hasRoot: () => boolean
  /** Called once. */
  readonly onFinish: (exitCode: number, reason: string) => void
}

/** Time from the signal to the end of the process. */
export const STOP_MS_MAX = 5_000

/** The rest of the time that a stop may take is for closing the store. */
const FORCED_STOP_MS = STOP_MS_MAX - 1_000

/**
 * Ends the host exactly once: in order when a stop is requested, and by force when an orderly stop takes too long or
 * the root actor is gone.
 */
export class HostLifecycle {
  readonly #ports: HostLifecyclePorts
  #cancelForcedStop: Cancel | undefined
  #isFinished = false

  constructor(ports: HostLifecyclePorts) {
    this.#ports = ports
  }

  get isFinished(): boolean {
    return this.#isFinished
  }

  /** Ends in `finish`, in order or by force, within the time that a stop may take. */
  requestStop(exitCode: number, reason: string): void {
    if (this.#isFinished) return
    const { clock, sendToRoot } = this.#ports
    this.#cancelForcedStop ??= clock.after(FORCED_STOP_MS, () =>
      this.finish(EXIT_BROKEN, `${reason}; could not stop in order`),
    )
    sendToRoot({ type: 'stop requested', at: clock.now(), exitCode, reason })
  }

  onFatal(reason: string): void {
    if (this.#isFinished) return
    this.#ports.log.error({ reason }, 'the host ends because of a fatal error')
    // A crashed root can stop nothing in order any more.
    if (this.#ports.hasRoot()) this.requestStop(EXIT_BROKEN, reason)
    else this.finish(EXIT_BROKEN, reason)
  }

  finish(exitCode: number, reason: string): void {
    if (this.#isFinished) return
    this.#isFinished = true
    this.#cancelForcedStop?.()
    this.#ports.onFinish(exitCode, reason)
  }
}

// ---- effects -----------------------------------------------------------------------------------------------------

interface RootEffectPorts {
  /** Refused as `gone` when a record is newer than this version. */
  readonly restore: () => Result<RestoreReport>
  /** Refused when a port is in use, with a message that names the port. */
  readonly openListeners: () => Promise<Result<void>>
  readonly closeListeners: () => Promise<unknown>
  readonly finish: (exitCode: number, reason: string) => void
  readonly log: Log
  readonly sendEvent: (event: RootEvent) => void
}

/**
 * Carries out the effects of the root machine: restore the actors, open and close the listeners, end the process.
 *
 * Every effect sends its outcome to the root, failures included: a root that waits for ever could not be stopped.
 */
function createRootEffects(ports: RootEffectPorts): (effect: RootEffect) => void {
  return (effect) => {
    switch (effect.type) {
      case 'root.read records':
        ports.sendEvent(readRecords(ports))
        return
      case 'root.open listeners':
        void openListeners(ports).then(ports.sendEvent)
        return
      case 'root.close listeners':
        void closeListeners(ports).then(ports.sendEvent)
        return
      case 'root.finish':
        ports.finish(effect.exitCode, effect.reason)
        return
    }
  }
}

function readRecords({ restore }: RootEffectPorts): RootEvent {
  try {
    const restored = restore()
    if (restored.ok) return { type: 'records read' }
    const exitCode = restored.refusal.kind === 'gone' ? EXIT_STORE_TOO_NEW : EXIT_BROKEN
    return { type: 'records refused', exitCode, reason: restored.refusal.message }
  } catch (error) {
    const reason = `could not read the stored actors: ${messageOf(error)}`
    return { type: 'records refused', exitCode: EXIT_BROKEN, reason }
  }
}

async function openListeners(ports: RootEffectPorts): Promise<RootEvent> {
  try {
    const opened = await ports.openListeners()
    return opened.ok ? { type: 'listeners open' } : listenersRefused(opened.refusal)
  } catch (error) {
    return listenersRefused(no('failed', `could not open the listeners: ${messageOf(error)}`).refusal)
  }
}

function listenersRefused({ kind, message }: Refusal): RootEvent {
  const exitCode = kind === 'invalid' ? EXIT_CONFIG : kind === 'failed' ? EXIT_BROKEN : EXIT_LISTENERS
  return { type: 'listeners refused', exitCode, reason: message }
}

async function closeListeners({ closeListeners, log }: RootEffectPorts): Promise<RootEvent> {
  try {
    await closeListeners()
  } catch (error) {
    log.error({ err: error }, 'could not close the listeners in order')
  }
  return { type: 'listeners closed' }
}

// ---- listeners ---------------------------------------------------------------------------------------------------

interface OpenListeners {
  close(): Promise<void>
}

/** Opens the listeners once and closes them once, even if closing is requested while opening is still in progress. */
export class Listeners {
  readonly #openListeners: () => Promise<Result<OpenListeners>>
  #opening: Promise<Result<OpenListeners>> | undefined

  constructor(openListeners: () => Promise<Result<OpenListeners>>) {
    this.#openListeners = openListeners
  }

  async open(): Promise<Result<void>> {
    this.#opening ??= this.#openListeners()
    const opened = await this.#opening
    return opened.ok ? yes(undefined) : opened
  }

  async close(): Promise<void> {
    const opened = await this.#opening
    if (opened?.ok) await opened.value.close()
  }
}
