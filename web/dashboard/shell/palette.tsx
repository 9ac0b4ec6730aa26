/** Opens the command palette. Its content is loaded once the page is drawn, to be there when somebody asks for it. */
import { offeredActs } from '../../elements/acts.ts'
import { showDialog } from '../../elements/dialog.tsx'
import { showError } from '../../elements/toasts.ts'

const load = () => import('./palette-list.tsx')
let isOpen = false

/** A page that cannot load it says so when the palette is asked for. */
export const loadPalette = (): Promise<unknown> => load().catch(() => {})

export function openPalette(): void {
  if (isOpen) return
  isOpen = true
  open()
    .catch(showError)
    .finally(() => {
      isOpen = false
    })
}

async function open(): Promise<void> {
  // The acts of the page are those offered before the palette is open.
  const acts = offeredActs()
  const { PaletteList } = await load()
  await showDialog((close) => <PaletteList acts={acts} close={close} />, { wide: true })
}
