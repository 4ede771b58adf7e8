"""Programs that show what vkshare is for. `vkshare demo NAME` starts them."""
