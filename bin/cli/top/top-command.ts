/**
 * The command `top`; `live-board.ts` is the place to begin.
 *
 * Records come from `board-feed.ts`, rows from `board.ts`, lines from `layout.ts`, and only `board-terminal.ts` writes.
 */
import { clientCommand } from '../command/client-options.ts'
import { clientAction } from '../command/run-command.ts'

const loadLiveBoard = () => import('./live-board.ts')

export const topCommand = () =>
  clientCommand('top', 'Watch runs and workers on a live board').action(
    clientAction(loadLiveBoard, ({ top }, context) => top(context)),
  )
