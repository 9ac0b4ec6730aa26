/**
 * The root module restores actors, opens and closes the listeners, and starts every other module once the host serves.
 */
import type { Cancel } from '../../core/ports.ts'
import { defineHostModule } from '../host-context.ts'
import { effectHandlers, type ModuleList } from '../runtime/module.ts'
import type { HostLifecycle } from './host-lifecycle.ts'
import type { Listeners } from './listeners.ts'
import { createRootEffects } from './root.effects.ts'
import { ROOT, type RootEffect, rootKind } from './root.machine.ts'

export interface RootModulePorts {
  readonly listeners: Listeners
  readonly lifecycle: HostLifecycle
  readonly modules: () => ModuleList
}

export const createRootModule = ({ listeners, lifecycle, modules }: RootModulePorts) =>
  defineHostModule({
    name: 'root',
    kinds: [rootKind],
    create({ system, store, log, timers }) {
      let stopWatchingFile: Cancel = () => {}
      const onFileTouched = () => modules().views.settings.onFileTouched()
      return {
        onStateChange: {
          [ROOT]({ after }) {
            if (after.value !== 'serving') return
            timers.start()
            modules().start()
          },
        },
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
