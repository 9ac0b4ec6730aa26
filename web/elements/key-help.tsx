/** The list of the keys that are valid on this page now. */
import type { ComponentChildren } from 'preact'
import { type Act, offeredActs } from './acts.ts'
import { Button } from './button.tsx'
import { showDialog } from './dialog.tsx'

let isOpen = false

/** @param note what a person should know before the keys */
export function showKeys(note?: ComponentChildren): void {
  if (isOpen) return
  isOpen = true
  const acts = offeredActs().filter(({ keys }) => keys !== undefined)
  showDialog((close) => <KeyHelp acts={acts} note={note} close={close} />).finally(() => {
    isOpen = false
  })
}

interface KeyHelpProps {
  readonly acts: readonly Act[]
  readonly note: ComponentChildren
  readonly close: () => void
}

function KeyHelp({ acts, note, close }: KeyHelpProps) {
  const groups = Map.groupBy(acts, ({ group }) => group)
  return (
    <>
      <h2>Keys</h2>
      {note}
      {[...groups].map(([group, members]) => (
        <section class="key-group" key={group}>
          <h3 class="faint">{group}</h3>
          <dl>
            {members.map(({ id, title, keys = '' }) => (
              <div class="key-line" key={id}>
                <dt>
                  <Keys keys={keys} />
                </dt>
                <dd>{title}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
      <div class="dialog-acts">
        <Button act={close} autoFocus>
          Close
        </Button>
      </div>
    </>
  )
}

/** `g o` as two keys in a row, letters as they stand on the keys. */
export const Keys = ({ keys }: { readonly keys: string }) => (
  <>
    {keys.split(' ').map((key, at) => (
      <>
        {at > 0 && ' '}
        <kbd>{key.length === 1 ? key.toUpperCase() : key}</kbd>
      </>
    ))}
  </>
)
