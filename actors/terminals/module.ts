/** The terminals module resumes retained sandboxes for people, relays their terminals, and accounts what sessions cost. */

import { modelUseOf } from '../../core/run/job.ts'
import { agentCredential } from '../../core/settings/agent-credentials.ts'
import { RESUMABLE_AGENT } from '../../protocol/agents/registry.ts'
import { defineHostModule } from '../host-context.ts'
import { RUN } from '../runs/run.machine.ts'
import { effectHandlers, observeKind } from '../runtime/module.ts'
import { handleTimer } from '../runtime/timer-kind.ts'
import { SessionCosts } from './session-costs.ts'
import {
  TERMINAL_SESSION,
  type TerminalSessionEffect,
  terminalSessionKind,
} from './terminal-session.machine.ts'
import { TERMINAL_SESSION_TIMER, TerminalSessions } from './terminal-sessions.ts'

export interface TerminalsView {
  readonly sessions: TerminalSessions
  readonly sessionCosts: SessionCosts
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly terminals: TerminalsView
  }
}

const PRUNE_MS = 6 * 3_600_000

export const terminalsModule = defineHostModule({
  name: 'terminals',
  kinds: [terminalSessionKind],
  create(context, { workers, runRecords, trustedClock }) {
    const { clock, config, store, system, requestCommit } = context
    const { finishedRuns } = runRecords
    const sessions = new TerminalSessions({
      ...context,
      workers: workers.registry,
      connections: workers.connections,
      credentials() {
        const settings = config().agent
        const agent = agentCredential(RESUMABLE_AGENT, settings)
        return {
          ...(agent === undefined ? {} : { agent }),
          ...(settings.keyInSandbox ? { keyInSandbox: true } : {}),
          ...modelUseOf(settings),
        }
      },
      // An execution whose lease was lost may have begun a session that the host never heard of.
      onSessionNamed({ runId, workerId }, sessionId) {
        const run = finishedRuns.readable(runId)
        if (run !== undefined && run.agentSessionId !== sessionId)
          sessionCosts.startSession(run, workerId, sessionId)
      },
    })
    workers.registry.terminalsByWorker = () => sessions.runsByWorker()
    const sessionCosts = new SessionCosts({
      keyValues: store.database.keyValues,
      usage: store.usage,
      now: () => clock.now(),
      trustedClock,
      finishedRun: (runId) =>
        system.peek(RUN, runId) === undefined ? finishedRuns.readable(runId) : undefined,
      changeRun: (run) => finishedRuns.update(run),
      requestCommit,
    })
    let cancelPrune = () => {}
    const prune = () => {
      sessionCosts.prune()
      cancelPrune = clock.after(PRUNE_MS, prune)
    }
    return {
      view: { sessions, sessionCosts },
      effects: effectHandlers<TerminalSessionEffect>({ attach: (effect) => sessions.runEffect(effect) }),
      participants: [sessionCosts],
      onStateChange: [
        observeKind(TERMINAL_SESSION, (change) => sessions.onStateChange(change)),
        observeKind(RUN, ({ key, over }) => {
          if (over) sessionCosts.onRunFinished(key)
        }),
      ],
      onTimer: [handleTimer(TERMINAL_SESSION_TIMER, (runId) => sessions.onTimer(runId))],
      start() {
        sessionCosts.start()
        prune()
      },
      // Before connections close, so that each view is told the reason.
      drain: async () => sessions.stop(),
      stop: () => cancelPrune(),
      sizes: () => ({ booted: sessions.size, terminals: sessions.views }),
    }
  },
})
