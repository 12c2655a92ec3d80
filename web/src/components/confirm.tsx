import { type ReactNode, useState } from 'react'
import type { Commands } from '@/lib/quote'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { CopyAs } from './copy'
import { ErrorNotice } from './notices'

/**
 * Asks the user to confirm an action that cannot be undone. If the action fails, the dialog stays open and shows the
 * reason.
 */
export function ConfirmDialog({
  open,
  onClose,
  title,
  children,
  action,
  onConfirm,
  danger = false,
  commands,
  ready = true,
}: {
  open: boolean
  onClose: () => void
  title: string
  children?: ReactNode
  /** The label of the button, which names the action instead of "OK". */
  action: string
  onConfirm: () => Promise<unknown>
  danger?: boolean
  commands?: () => Commands
  ready?: boolean
}) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const close = () => {
    setError(null)
    onClose()
  }
  const confirm = async () => {
    setBusy(true)
    setError(null)
    try {
      await onConfirm()
      close()
    } catch (reason) {
      setError(reason)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      open={open}
      onClose={close}
      title={title}
      footer={
        <>
          {commands !== undefined && <CopyAs commands={commands} />}
          <span className="flex-1" />
          <Button onClick={close}>Keep as it is</Button>
          <Button look={danger ? 'danger' : 'primary'} busy={busy} disabled={!ready} onClick={() => void confirm()}>
            {action}
          </Button>
        </>
      }
    >
      <div className="grid gap-3 text-sm">
        {children}
        {error !== null && <ErrorNotice error={error} />}
      </div>
    </Dialog>
  )
}
