/** A line that people copy to another place: whole, with a button that copies and says so. */
import { useSignal } from '@preact/signals'
import { Button } from './button.tsx'
import { showError } from './toasts.ts'

const SHOWN_MS = 2_000

/** @param label what the line is, for people who do not see it */
export function PasteLine({ text, label }: { readonly text: string; readonly label: string }) {
  const isCopied = useSignal(false)
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(text)
    } catch {
      showError('The browser refused to copy. Select the line and copy it by hand.')
      return
    }
    isCopied.value = true
    setTimeout(() => {
      isCopied.value = false
    }, SHOWN_MS)
  }
  return (
    <div class="paste-line">
      <code>{text}</code>
      <Button small act={copy} label={`Copy ${label}`}>
        <span aria-live="polite">{isCopied.value ? 'Copied' : 'Copy'}</span>
      </Button>
    </div>
  )
}
