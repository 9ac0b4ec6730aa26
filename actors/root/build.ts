/**
 * Builds a whole host out of what it is given: clock, store, doors, log. Nothing in here reaches for the world, so a
 * test can build a dozen of them in one process.
 */
import type { Cancel, Chance, Clock, Log, Meters, Store } from '../../core/ports.ts'
import type { Answer } from '../../core/refusal.ts'
import { no, yes } from '../../core/refusal.ts'
import type { CompletedConfig, ServiceConfig } from '../../protocol/config.ts'
import type { DashboardPush } from '../../protocol/dashboard.ts'
import type { HealthResponse } from '../../protocol/worker.ts'
import { Drawer } from '../kit/drawer.ts'
import { ActorHost } from '../kit/host.ts'
import type { Effect } from '../kit/tray.ts'
import { ConfigVault } from './config-vault.ts'
import { type DeskParts, frontDesk } from './desk.ts'
import type { FrontDesk } from './front-desk.ts'
import { joinEffects } from './join.ts'
import { hostKinds, ROOT, SETTINGS } from './kinds.ts'
import { EXIT_BROKEN, type RootEffect, rootEffects } from './root.effects.ts'
import type { RootEvent } from './root.machine.ts'
import { type SettingsDrawer, type SettingsEffect, settingsEffects } from './settings.effects.ts'
import type { SettingsEvent } from './settings.machine.ts'

export interface HostParts {
  readonly clock: Clock
  readonly chance: Chance
  readonly log: Log
  readonly meters: Meters
  readonly store: Store
  readonly configuration: CompletedConfig
  /** What the file held when that configuration was read from it. */
  readonly configText: string | undefined
  /** Told whenever another configuration comes into force: there may be new secrets to keep out of the log. */
  readonly onConfig?: (effective: ServiceConfig) => void
  readonly health: HealthResponse
  readonly openDoors: (desk: FrontDesk) => Promise<Answer<{ close(): Promise<void> }>>
  /** The last thing a host does. */
  readonly finish: (exitCode: number, reason: string) => void
}

export interface BuiltHost {
  readonly desk: FrontDesk
  start(): void
  /** Ends in `finish`, within the time a stop may take. */
  stop(reason: string): void
}

export function buildHost(parts: HostParts): BuiltHost {
  const { clock, store, log, meters } = parts
  const vault = new ConfigVault(parts.configuration, parts.configText, parts.onConfig)
  const drawer: SettingsDrawer = new Drawer()
  const listeners = new Set<(push: DashboardPush) => void>()
  const push = (message: DashboardPush) => {
    for (const listener of listeners) listener(message)
  }
  let doors: { close(): Promise<void> } | undefined
  let unwatch: Cancel = () => {}
  let finished = false

  const tellRoot = (event: RootEvent) => void host.tell(ROOT, ROOT, event)
  const tellSettings = (event: SettingsEvent) => void host.tell(SETTINGS, SETTINGS, event)
  const requestStop = (exitCode: number, reason: string) =>
    tellRoot({ type: 'stop requested', at: clock.now(), exitCode, reason })

  const fatal = (reason: string) => {
    log.error({ reason }, 'the host cannot go on')
    // A dead root can't stop anything in order any more.
    if (host.peek(ROOT, ROOT) === undefined) finish(EXIT_BROKEN, reason)
    else requestStop(EXIT_BROKEN, reason)
  }

  const finish = (exitCode: number, reason: string) => {
    if (finished) return
    finished = true
    unwatch()
    unhear()
    drawer.settleAll(no('unavailable', 'the service is stopping; the change was not made'))
    host.stop()
    parts.finish(exitCode, reason)
  }

  const effects = joinEffects<RootEffect | SettingsEffect>({
    root: rootEffects({
      restore: () => {
        const restored = host.restore()
        if (restored.ok)
          for (const problem of restored.value.damaged)
            log.error({ problem }, 'a stored record could not be read; it was left alone')
        return restored
      },
      openDoors: async () => {
        const opened = await parts.openDoors(desk)
        if (!opened.ok) return opened
        doors = opened.value
        unwatch = store.config.watch(() => tellSettings({ type: 'file touched' }))
        // It may have been edited between being read at start and being watched.
        tellSettings({ type: 'file touched' })
        return yes(undefined)
      },
      closeDoors: async () => {
        unwatch()
        await doors?.close()
      },
      finish,
      tell: tellRoot,
    }),
    settings: settingsEffects({ file: store.config, vault, drawer, log, meters, push, tell: tellSettings }),
  })

  const host: ActorHost = new ActorHost({
    clock,
    ledger: store.ledger,
    log,
    meters,
    kinds: hostKinds,
    effects: effects as (effect: Effect) => void,
    fatal,
  })
  const unhear = store.ledger.onState((state) => {
    if (state.is !== 'broken') return
    host.halt()
    fatal(`the store is broken: ${state.reason}`)
  })

  const deskParts: DeskParts = { host, vault, drawer, listeners, health: parts.health, ledger: store.ledger }
  const desk = frontDesk(deskParts)

  return {
    desk,
    start() {
      host.bear(ROOT, ROOT, {})
      host.bear(SETTINGS, SETTINGS, {})
    },
    stop: (reason) => requestStop(0, reason),
  }
}
